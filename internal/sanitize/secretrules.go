package sanitize

import "bytes"

// rules are the kinds of secrets that are known. Each has a fixed text and a form that
// other text hardly ever has, because a wrong redaction destroys an answer. Kinds without
// a text of their own, such as plain hexadecimal keys, are left out: nothing tells them
// from other text. The order matters only where two rules fit the same text: the first
// one in the list wins. docs/cleaning.md lists the kinds.
var rules = [...]rule{
	{kind: "github-pat", prefixes: []string{"ghp_"}, body: alphanumeric, least: 36, check: random},
	{
		kind: "github-pat", prefixes: []string{"github_pat_"}, body: letters(upper, lower, digits, "_"),
		least: 82, check: random,
	},
	{
		kind: "github-token", prefixes: []string{"gho_", "ghu_", "ghs_", "ghr_"},
		body: alphanumeric, least: 36, check: random,
	},
	{
		kind: "gitlab-token",
		prefixes: []string{
			"glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glimt-", "glagent-", "glft-",
			"glffct-", "gloas-",
			"glwt-",
		},
		body: wordDash, least: 20, check: random,
	},
	{kind: "aws-access-key", prefixes: []string{"AKIA", "ASIA"}, body: base32, exact: 16},
	{
		kind: "aws-secret-key", prefixes: []string{"ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey"},
		hint: len("ecret_"), extent: awsSecret, within: true,
	},
	{
		kind: "aws-secret-key", prefixes: []string{"ecret Access Key"}, hint: len("ecret A"),
		extent: awsSecret,
		within: true,
	},
	{
		kind: "azure-storage-key", prefixes: []string{"AccountKey=", "AccountKey%3D"},
		hint: len("AccountK"), extent: base64Value(86, 2), within: true,
	},
	{
		kind: "azure-access-key", prefixes: []string{"SharedAccessKey=", "SharedAccessKey%3D"},
		hint: len("SharedA"), extent: base64Value(43, 1), within: true,
	},
	{kind: "azure-sas", prefixes: []string{"sig="}, extent: sasSignature},
	{kind: "entra-client-secret", prefixes: entraMarks, lead: 3, body: wordDashWave, exact: 34},
	{kind: "entra-client-secret", prefixes: entraMarks, lead: 3, body: wordDashWave, exact: 31},
	{kind: "jwt", prefixes: []string{"eyJ", "eyA"}, extent: webToken},
	{
		kind: "url-password", prefixes: []string{"://", `:\/\/`, `:\\/\\/`}, extent: urlPassword(":", "@"),
		within: true, yields: true,
	},
	{
		kind: "url-password", prefixes: []string{"%3A%2F%2F"}, extent: urlPassword("%3A", "%40"),
		within: true,
		yields: true,
	},
	{
		kind:     "slack-token",
		prefixes: []string{"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxc-", "xapp-"},
		body:     letters(upper, lower, digits, "-"), least: 24, check: startsWithDigit,
	},
	{
		kind: "slack-webhook", prefixes: []string{"hooks.slack.com/services/"}, hint: len("hooks."),
		body: letters(upper, lower, digits, "/"), least: 40, check: startsWith("T"),
	},
	{
		kind: "stripe-key", prefixes: []string{"sk_live_", "rk_live_", "sk_org_live_"},
		body: alphanumeric, least: 24, check: random,
	},
	{
		kind: "stripe-webhook-secret", prefixes: []string{"whsec_"}, body: base64Plain, least: 32,
		check: random,
	},
	{
		kind: "anthropic-key", prefixes: []string{"sk-ant-"}, hint: len("sk-"), body: wordDash, least: 60,
		check: random,
	},
	{
		kind: "openai-key", prefixes: []string{"sk-proj-", "sk-svcacct-", "sk-admin-"}, hint: len("sk-"),
		body: wordDash, least: 40, check: random,
	},
	{
		kind: "openai-key", prefixes: []string{"sk-"}, body: alphanumeric, exact: 48,
		check: hasAt(20, "T3BlbkFJ"),
	},
	{kind: "npm-token", prefixes: []string{"npm_"}, body: alphanumeric, exact: 36, check: random},
	{
		kind: "pypi-token", prefixes: []string{"pypi-AgE"}, hint: len("pypi-"), body: wordDash, least: 60,
		check: random,
	},
	{kind: "rubygems-key", prefixes: []string{"rubygems_"}, body: hexadecimal, exact: 48},
	{
		kind: "docker-token", prefixes: []string{"dckr_pat_", "dckr_oat_"}, body: wordDash, least: 27,
		check: random,
	},
	{
		kind: "google-api-key", prefixes: []string{"AIza"}, hint: len("AIz"), body: wordDash, exact: 35,
		check: random,
	},
	{kind: "google-oauth-secret", prefixes: []string{"GOCSPX-"}, body: wordDash, exact: 28, check: random},
	{kind: "google-oauth-token", prefixes: []string{"ya29."}, body: wordDash, least: 50, check: random},
	{kind: "sendgrid-key", prefixes: []string{"SG."}, body: wordDashDot, exact: 66, check: hasAt(22, ".")},
	{kind: "private-key", prefixes: []string{"-----BEGIN "}, hint: len("-----B"), extent: privateKey},
	{kind: "age-key", prefixes: []string{"AGE-SECRET-KEY-1"}, hint: len("AGE-"), body: capitals, exact: 58},
	{
		kind: "digitalocean-token", prefixes: []string{"dop_v1_", "doo_v1_", "dor_v1_"}, body: hexadecimal,
		exact: 64,
	},
	{
		kind: "shopify-token", prefixes: []string{"shpat_", "shpca_", "shppa_", "shpss_"},
		body: hexadecimal, exact: 32,
	},
	{kind: "databricks-token", prefixes: []string{"dapi"}, hint: len("dap"), body: hexadecimal, exact: 32},
	{kind: "huggingface-token", prefixes: []string{"hf_"}, body: alphabetic, exact: 34, check: randomLetters},
	{kind: "replicate-token", prefixes: []string{"r8_"}, body: alphanumeric, exact: 37, check: random},
	{kind: "groq-key", prefixes: []string{"gsk_"}, body: alphanumeric, exact: 52, check: random},
	{kind: "linear-key", prefixes: []string{"lin_api_"}, body: alphanumeric, exact: 40, check: random},
	{kind: "notion-token", prefixes: []string{"ntn_"}, body: alphanumeric, exact: 46, check: startsWithDigit},
	{
		kind: "doppler-token", prefixes: []string{"dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."},
		body: alphanumeric, exact: 43, check: random,
	},
	{
		kind: "vault-token", prefixes: []string{"hvs.", "hvb.", "hvr."}, body: wordDash, least: 24,
		check: random,
	},
	{
		kind: "postman-key", prefixes: []string{"PMAK-"}, body: letters(digits, "abcdef-"), exact: 59,
		check: hasAt(24, "-"),
	},
	{kind: "newrelic-key", prefixes: []string{"NRAK-"}, body: capitals, exact: 27},
	{
		kind: "grafana-token", prefixes: []string{"glsa_"}, body: letters(upper, lower, digits, "_"),
		exact: 41, check: hasAt(32, "_"),
	},
	{kind: "pulumi-token", prefixes: []string{"pul-"}, body: hexadecimal, exact: 40},
	{
		kind: "dynatrace-token", prefixes: []string{"dt0c01."}, body: letters(upper, digits, "."),
		exact: 89, check: hasAt(24, "."),
	},
	{
		kind: "planetscale-token", prefixes: []string{"pscale_tkn_", "pscale_pw_", "pscale_oauth_"},
		body: wordDash, least: 32, check: random,
	},
	{kind: "supabase-token", prefixes: []string{"sbp_"}, body: hexadecimal, exact: 40},
	{kind: "figma-token", prefixes: []string{"figd_"}, body: wordDash, least: 40, check: random},
	{
		kind: "tailscale-key", prefixes: []string{"tskey-auth-", "tskey-api-", "tskey-client-"},
		hint: len("tskey-"),
		body: wordDash, least: 20, check: random,
	},
	{
		kind: "atlassian-token", prefixes: []string{"ATATT3", "ATCTT3"}, hint: len("ATA"),
		body: letters(upper, lower, digits, "_=-"), least: 150,
	},
	{
		kind: "sentry-token", prefixes: []string{"sntrys_"}, body: letters(upper, lower, digits, "+/=_"),
		least: 80, check: startsWith("eyJ"),
	},
	{kind: "sentry-token", prefixes: []string{"sntryu_"}, body: hexadecimal, exact: 64},
	{kind: "perplexity-key", prefixes: []string{"pplx-"}, body: alphanumeric, exact: 48, check: random},
	{kind: "xai-key", prefixes: []string{"xai-"}, body: alphanumeric, exact: 80, check: random},
	{kind: "openrouter-key", prefixes: []string{"sk-or-v1-"}, hint: len("sk-"), body: hexadecimal, exact: 64},
	{
		kind: "langsmith-key", prefixes: []string{"lsv2_pt_", "lsv2_sk_"}, body: letters(digits, "abcdef_"),
		exact: 43, check: hasAt(32, "_"),
	},
	{
		kind: "brevo-key", prefixes: []string{"xkeysib-", "xsmtpsib-"}, body: letters(lower, upper, digits,
			"-"),
		exact: 81, check: hasAt(64, "-"),
	},
	{
		kind: "terraform-token", prefixes: []string{".atlasv1."}, lead: 14, body: wordDash, least: 60,
		check: random,
	},
	{
		kind: "circleci-token", prefixes: []string{"CCIPAT_"}, body: letters(upper, lower, digits, "_"),
		least: 60, check: random,
	},
	{kind: "sonarqube-token", prefixes: []string{"squ_", "sqp_", "sqa_"}, body: hexadecimal, exact: 40},
	{kind: "drawbridge-secret", prefixes: []string{"dbk_", "dbr_"}, extent: ourSecret},
	{
		kind: "artifactory-key", prefixes: []string{"AKCp"}, hint: len("AKC"), body: alphanumeric, exact: 69,
		check: random,
	},
}

// entraMarks are the mark in client secrets of Entra ID, with the digit before it.
var entraMarks = []string{"0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"}

func startsWithDigit(body []byte) bool { return body[0] >= '0' && body[0] <= '9' }

// startsWith returns a check that the body begins with text.
func startsWith(text string) func([]byte) bool { return hasAt(0, text) }

// hasAt returns a check that the body has text at index i.
func hasAt(i int, text string) func([]byte) bool {
	return func(body []byte) bool { return bytes.HasPrefix(body[i:], []byte(text)) }
}
