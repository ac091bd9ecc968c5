{{- define "ottla.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "ottla.headless" -}}
{{ include "ottla.fullname" . }}-headless
{{- end }}

{{- define "ottla.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ottla.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "ottla.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "ottla.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "ottla.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* The domain of the pods: POD.DOMAIN is one pod's name. */}}
{{- define "ottla.domain" -}}
{{ include "ottla.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{/* controller.quorum.voters: node ids are the pods' ordinals and one. */}}
{{- define "ottla.voters" -}}
{{- $voters := list }}
{{- range $ordinal := until (int .Values.controllers) }}
{{- $host := printf "%s-%d.%s" (include "ottla.fullname" $) $ordinal (include "ottla.domain" $) }}
{{- $voters = append $voters (printf "%d@%s:%d" (add1 $ordinal) $host (int $.Values.ports.controllers)) }}
{{- end }}
{{- join "," $voters }}
{{- end }}

{{/* A setting's value as Kafka reads it: Helm has large numbers as 1e+09. */}}
{{- define "ottla.value" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}
