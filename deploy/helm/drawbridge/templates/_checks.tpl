{{/*
What does not go together, though each value by itself is right: each line says what is wrong and what to write. The first that is
found ends the installation.
*/}}
{{- define "drawbridge.check" -}}
{{- $config := include "drawbridge.config" . | fromYaml -}}
{{- $wanted := include "drawbridge.wanted" . | int -}}
{{- $most := include "drawbridge.most" . | int -}}
{{- if not (or .Values.image.tag .Values.image.digest) -}}
{{- fail "image.tag or image.digest is missing: say which image, such as --set image.repository=registry.example.com/drawbridge --set image.tag=v1" -}}
{{- end -}}
{{- range list "issuers" "tenants" "servers" -}}
{{- if not (or (index $config .) $config.include) -}}
{{- fail (printf "config.%s is missing: the gateway's own config stands under config; deploy/kubernetes/values-single.yaml is an example" .) -}}
{{- end -}}
{{- end -}}
{{- if not $config.public_url -}}
{{- fail "config.public_url is missing: write what clients type, without /mcp, such as https://mcp.example.com; tokens are for it" -}}
{{- end -}}
{{- range list "listen" "operator" -}}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[::\\]|):[0-9]+$" (toString (index $config .))) -}}
{{- fail (printf "config.%s is %q: in a pod it must be all addresses and a port, such as 0.0.0.0:8080 or [::]:8080; leave it out for the default" . (toString (index $config .))) -}}
{{- end -}}
{{- end -}}
{{- include "drawbridge.checkPorts" $config -}}
{{- include "drawbridge.checkPods" .Values -}}
{{- include "drawbridge.checkReplicas" (dict "config" $config "wanted" $wanted "most" $most "values" .Values) -}}
{{- include "drawbridge.checkFiles" (dict "config" $config "most" $most "values" .Values) -}}
{{- include "drawbridge.checkNetwork" (dict "config" $config "values" .Values) -}}
{{- end -}}

{{- define "drawbridge.checkPorts" -}}
{{- $listen := include "drawbridge.port" .listen | int -}}
{{- $operator := include "drawbridge.port" .operator | int -}}
{{- range $key, $port := dict "listen" $listen "operator" $operator -}}
{{- if or (lt $port 1) (gt $port 65535) -}}
{{- fail (printf "config.%s has the port %d: write one from 1 to 65535" $key $port) -}}
{{- end -}}
{{- end -}}
{{- if eq $listen $operator -}}
{{- fail (printf "config.listen and config.operator both have the port %d: give each its own, since clients must not reach that of the operator" $listen) -}}
{{- end -}}
{{- end -}}

{{- define "drawbridge.checkPods" -}}
{{- range list "app.kubernetes.io/name" "app.kubernetes.io/instance" -}}
{{- if hasKey ($.podLabels | default dict) . -}}
{{- fail (printf "podLabels has %s, which the chart sets itself, since pods are selected by it: leave it out" .) -}}
{{- end -}}
{{- end -}}
{{- if hasKey (.podAnnotations | default dict) "drawbridge/restart-settings" -}}
{{- fail "podAnnotations has drawbridge/restart-settings, which the chart sets itself, so that pods are replaced when a setting wants it: leave it out" -}}
{{- end -}}
{{- $names := list "POD_NAME" -}}
{{- range .env -}}
{{- if has .name $names -}}
{{- fail (printf "env has %s twice, or it is POD_NAME, which the chart sets itself: leave one out" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if and .autoscaling.enabled (not (dig "requests" "cpu" "" (.resources | default dict))) -}}
{{- fail "autoscaling.enabled needs resources.requests.cpu, of which the percentage is taken: without it nothing is ever scaled" -}}
{{- end -}}
{{- end -}}

{{- define "drawbridge.checkReplicas" -}}
{{- $keys := dig "sessions" "keys_file" "" .config -}}
{{- if and (gt .wanted 1) (not (and .config.redis $keys)) -}}
{{- fail (printf "%d replicas need config.redis and config.sessions.keys_file, or each would know only its own sessions; docs/replicas.md says how to set them up. Or set replicaCount: 1 and autoscaling.enabled: false" .wanted) -}}
{{- end -}}
{{- if and .config.redis (not $keys) -}}
{{- fail "config.redis needs config.sessions.keys_file, the same file at each replica; docs/keys.md says how it is made" -}}
{{- end -}}
{{- if and .config.redis (lt (int .config.replicas) .most) -}}
{{- fail (printf "config.replicas is %d, but %d can live at once: %d, and in a rollout as many that still drain. Leave config.replicas out, and it is that" (int .config.replicas) .most .wanted) -}}
{{- end -}}
{{- with .values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas is %d, which is more than maxReplicas, %d" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- with .values.rollout -}}
{{- if lt (int .terminationGracePeriodSeconds) (add 60 .preStopSeconds | int) -}}
{{- fail (printf "rollout.terminationGracePeriodSeconds is %d: the gateway may take 60 s to drain, after preStopSeconds (%d); allow %d" (int .terminationGracePeriodSeconds) (int .preStopSeconds) (add 60 .preStopSeconds | int)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "drawbridge.checkFiles" -}}
{{- $secrets := .values.secrets -}}
{{- $configMaps := .values.configMaps -}}
{{- range regexFindAll "/run/secrets/[^/\"'\\s]+" (toYaml .config) -1 -}}
{{- if not (has (base .) $secrets) -}}
{{- fail (printf "config names a file below %s, but secrets has no %q: add the name of that Secret there" . (base .)) -}}
{{- end -}}
{{- end -}}
{{- range regexFindAll "/etc/drawbridge\\.d/[^/\"'\\s]+" (toYaml .config) -1 -}}
{{- if not (has (base .) $configMaps) -}}
{{- fail (printf "config names a file below %s, but configMaps has no %q: add the name of that ConfigMap there" . (base .)) -}}
{{- end -}}
{{- end -}}
{{- if and (ne .config.audit.file "-") (not (hasPrefix "/var/lib/drawbridge/" .config.audit.file)) -}}
{{- fail (printf "config.audit.file is %q: nothing else is writable than /var/lib/drawbridge, with audit.volume; or leave it out, and the record goes to standard output" .config.audit.file) -}}
{{- end -}}
{{- if and (ne .config.audit.file "-") (not .values.audit.volume) -}}
{{- fail "config.audit.file is below /var/lib/drawbridge, where audit.volume is mounted: say which volume that is, such as audit.volume.emptyDir={}" -}}
{{- end -}}
{{- range $key, $path := dict "data.dir" (dig "data" "dir" "" .config) "key_sets_dir" (.config.key_sets_dir | default "") -}}
{{- if and $path (not (and (regexMatch "^/var/lib/drawbridge(/|$)" $path) $.values.audit.volume)) -}}
{{- fail (printf "config.%s is %q: nothing else is writable than /var/lib/drawbridge, where audit.volume is mounted: write a folder there, and say which volume that is" $key $path) -}}
{{- end -}}
{{- end -}}
{{- if and (dig "data" "dir" "" .config) (or (hasKey .values.audit.volume "emptyDir") (hasKey .values.audit.volume "ephemeral")) -}}
{{- fail "config.data.dir is on audit.volume, which ends with its pod, and with it all keys and sign-ins: give it a persistentVolumeClaim" -}}
{{- end -}}
{{- if and (ne .config.audit.file "-") .values.audit.volume.persistentVolumeClaim (not (contains "${POD_NAME}" .config.audit.file)) -}}
{{- fail "audit.volume is one volume for several pods, the one that goes and the one that comes at least: write ${POD_NAME} in config.audit.file, so that each has a file of its own" -}}
{{- end -}}
{{- end -}}

{{- define "drawbridge.checkNetwork" -}}
{{- with .values.networkPolicy -}}
{{- if and .enabled (not .clients) -}}
{{- fail "networkPolicy.clients is empty: say from where the load balancer asks, or nobody reaches the gateway; or set networkPolicy.enabled: false" -}}
{{- end -}}
{{- end -}}
{{- $outside := list -}}
{{- if .config.redis }}{{ $outside = append $outside "redis" }}{{ end -}}
{{- if dig "data" "postgres_file" "" .config }}{{ $outside = append $outside "data" }}{{ end -}}
{{- range .config.issuers }}{{ if or .jwks_url .sign_in .github }}{{ $outside = append $outside (printf "issuer %s" (.issuer | default "github.com")) }}{{ end }}{{ end -}}
{{- range $name, $server := .config.servers }}{{ if or $server.url $server.openapi }}{{ $outside = append $outside (printf "server %s" $name) }}{{ end }}{{ end -}}
{{- if and .values.networkPolicy.enabled $outside (not .values.networkPolicy.egress) -}}
{{- fail (printf "networkPolicy.egress is empty, so the gateway would not reach %s: add a rule for each; or set networkPolicy.enabled: false" (join ", " $outside)) -}}
{{- end -}}
{{- if and .values.networkPolicy.enabled (ne .values.monitor.kind "none") (not .values.networkPolicy.monitoring) -}}
{{- fail "networkPolicy.monitoring is empty, so Prometheus would not reach what monitor tells it to scrape: say where it runs" -}}
{{- end -}}
{{- end -}}
