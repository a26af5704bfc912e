{{- define "pole.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "pole.selector" -}}
app.kubernetes.io/name: pole
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pole.labels" -}}
{{ include "pole.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* server.1=pole-0.pole-servers.namespace.svc:2888:3888;2181 … */ -}}
{{- define "pole.servers" -}}
{{- $name := include "pole.name" . -}}
{{- range $ordinal := until (int .Values.replicas) -}}
{{- if $ordinal }} {{ end -}}
server.{{ add1 $ordinal }}={{ $name }}-{{ $ordinal }}.{{ $name }}-servers.{{ $.Release.Namespace }}.svc:2888:3888;2181
{{- end -}}
{{- end -}}

{{- /* The ports between servers listen on all addresses: the name of a pod is not known to DNS before it runs. */ -}}
{{- define "pole.settings" -}}
quorumListenOnAllIPs=true
{{- if .Values.peerSecret.enabled }} pole.peer.secret=/secrets/peer/secret{{ end -}}
{{- range $key, $value := .Values.settings }} {{ $key }}=
{{- /* Helm reads numbers as floats, and would print a large one as 1e+06. */ -}}
{{- if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "pole.peerSecret" -}}
{{- default (printf "%s-peer" (include "pole.name" .)) .Values.peerSecret.existingSecret -}}
{{- end -}}
