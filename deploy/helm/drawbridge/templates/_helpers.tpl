{{/* The name of all objects of a release: drawbridge, or the release's own name beside it where that says something else. */}}
{{- define "drawbridge.name" -}}
{{- if contains "drawbridge" .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-drawbridge" .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What pods are selected by: it must never change while a release lives. */}}
{{- define "drawbridge.selector" -}}
app.kubernetes.io/name: drawbridge
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "drawbridge.labels" -}}
{{ include "drawbridge.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/*
The most replicas that are wanted, and the most that live: twice as many. In a rollout a pod that drains lives and counts for as long
as its grace, and Kubernetes does not wait for its end before it starts the next: so all old ones may be there with all new ones.
*/}}
{{- define "drawbridge.wanted" -}}
{{- if .Values.autoscaling.enabled }}{{ .Values.autoscaling.maxReplicas | int }}{{ else }}{{ .Values.replicaCount | int }}{{ end -}}
{{- end -}}

{{- define "drawbridge.most" -}}
{{- mul 2 (include "drawbridge.wanted" . | int) -}}
{{- end -}}

{{/* The config as YAML: what the values say, with what they leave out filled in. */}}
{{- define "drawbridge.config" -}}
{{- $filled := dict "listen" "0.0.0.0:8080" "operator" "0.0.0.0:9090" -}}
{{- if .Values.config.redis }}{{ $_ := set $filled "replicas" (include "drawbridge.most" . | int) }}{{ $_ := set $filled "link" (dict "listen" ":9092") }}{{ end -}}
{{- $config := mergeOverwrite $filled (deepCopy .Values.config) -}}
{{- $_ := set $config "audit" (merge (deepCopy ($config.audit | default dict)) (dict "file" "-")) -}}
{{- $acknowledged := $config.acknowledge | default list -}}
{{- if not (has "open-operator" $acknowledged) }}{{ $_ := set $config "acknowledge" (append $acknowledged "open-operator") }}{{ end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* What of the config a running gateway does not take over: it is in the pods' template, so that a change of it replaces them. */}}
{{- define "drawbridge.restart" -}}
{{- $config := include "drawbridge.config" . | fromYaml -}}
{{- $sessions := omit ($config.sessions | default dict) "keys_file" -}}
{{- $_ := set $sessions "sealed" (hasKey ($config.sessions | default dict) "keys_file") -}}
{{- $fixed := pick $config "listen" "operator" "revisions" "redis" "link" "replicas" "key_sets_dir" "data" "limits" "lists" "extensions" "card" -}}
{{- $_ := set $fixed "sessions" $sessions -}}
{{- $_ := set $fixed "audit" (omit ($config.audit | default dict) "claims") -}}
{{- $signIn := not (empty $config.clients) -}}
{{- range $config.issuers -}}{{- if or (hasKey . "sign_in") (hasKey . "github") -}}{{- $signIn = true -}}{{- end -}}{{- end -}}
{{- $_ := set $fixed "sign_in" $signIn -}}
{{- $_ := set $fixed "format" (dig "log" "format" "" $config) -}}
{{- toJson $fixed | sha256sum -}}
{{- end -}}

{{/*
The name of the config: another for each image and for each set of what needs a restart, which are the changes that replace pods. So
an old pod that restarts in the middle of an upgrade finds the config of its own version, and all other changes are made in place,
where the gateways that run take them over.
*/}}
{{- define "drawbridge.configName" -}}
{{- printf "%s-%s" (include "drawbridge.name" .) (print (include "drawbridge.image" .) (include "drawbridge.restart" .) | sha256sum | trunc 8) -}}
{{- end -}}

{{- define "drawbridge.port" -}}{{ regexFind "[0-9]+$" . }}{{- end -}}

{{- define "drawbridge.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}
