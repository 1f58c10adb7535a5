package pages

import "html/template"

// layout is the template of all pages.
var layout = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="{{.Language}}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
{{with .Refresh}}<meta http-equiv="refresh" content="{{.}}">
{{end}}<title>{{.Title}}</title>
<style>{{.Style}}</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
{{- if .Choice}}
<p>{{.ChooseLead}}</p>
<ul>
{{- range .Choice.Providers}}
<li><a class="button" href="{{.Href}}">{{$.ChooseWith}} {{.Name}}</a></li>
{{- end}}
</ul>
{{- else if .Consent}}
{{- with .Consent}}
<p>{{$.ConsentLead}}</p>
<dl>
{{- if .Host}}
<dt>{{$.Document}}</dt><dd>{{.Host}}</dd>
{{- end}}
<dt>{{$.Program}}</dt><dd><bdi>{{if .Client}}{{.Client}}{{else}}{{$.Unnamed}}{{end}}</bdi></dd>
<dt>{{$.Sends}}</dt><dd>{{.Redirect}}{{if .Local}} ({{$.ThisMachine}}){{end}}</dd>
<dt>{{$.You}}</dt><dd><bdi>{{.Person}}</bdi></dd>
{{- if eq (len .Tenants) 1}}
<dt>{{$.Tenant}}</dt><dd>{{index .Tenants 0}}</dd>
{{- end}}
<dt>{{$.Scopes}}</dt>
{{- if .All}}
<dd>{{$.AllScopes}}</dd>
{{- end}}
{{- range .Scopes}}
<dd><code>{{.}}</code></dd>
{{- else}}{{if not .All}}
<dd>{{$.NoScopes}}</dd>
{{- end}}{{end}}
</dl>
<p class="warning">{{$.Warning}}{{if .AnyProgram}} {{$.LocalDocument}}{{end}}</p>
<form method="post" action="{{.Action}}">
<input type="hidden" name="id" value="{{.ID}}">
<input type="hidden" name="proof" value="{{.Proof}}">
{{- if gt (len .Tenants) 1}}
<fieldset>
<legend>{{$.TenantLead}}</legend>
{{- range $i, $t := .Tenants}}
<label><input type="radio" name="tenant" value="{{$t}}" required> {{$t}}</label>
{{- end}}
</fieldset>
{{- end}}
<button type="submit" name="decision" value="allow">{{$.Allow}}</button>
<button type="submit" name="decision" value="deny" class="second" formnovalidate>{{$.Deny}}</button>
</form>
{{- end}}
{{- else if .Move}}
<p>{{if .Move.Denied}}{{.DeniedLead}}{{else}}{{.MoveLead}}{{end}}</p>
<p><a class="button" href="{{.To}}">{{.MoveLink}}</a></p>
<p>{{.MoveClose}}</p>
{{- else}}
<p>{{.Explanation.What}}</p>
{{- with .Person}}
<dl><dt>{{$.You}}</dt><dd><bdi>{{.}}</bdi></dd></dl>
{{- end}}
<p>{{.Explanation.Cure}}</p>
{{- with .To}}
<p><a class="button" href="{{.}}">{{$.MoveLink}}</a></p>
{{- end}}
{{- end}}
</main>
{{- if .Request}}
<footer>{{.ForPeople}} <code>{{.Request}}</code></footer>
{{- end}}
</body>
</html>
`))
