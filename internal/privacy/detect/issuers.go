package detect

import (
	"cmp"
	"slices"
	"strings"
)

// issuer describes a key format: a prefix and the number and set of the characters
// follows it.
type issuer struct {
	prefix      string
	least, most int
	extra       string // allowed besides letters and digits; "base32" allows only A-Z and 2-7
}

// issuers lists formats that are documented by the issuers or by scanners of public
// repositories. docs/privacy.md lists the formats that are not covered.
var issuers = prefixes(`
A3- 32-40 -            # 1Password secret key
ops_eyJ 100-1500 +/=_- # 1Password service account
AGE-SECRET-KEY-1 58-58
AKIA 16-16 base32      # Amazon
ASIA 16-16 base32
ABIA 16-16 base32
ACCA 16-16 base32
ABSK 109-300 +/=
bedrock-api-key- 20-400 +/=_-
AIza 35-35 _-          # Google
ya29. 20-400 _-
GOCSPX- 28-28 _-
AQVN 35-38 _-          # Yandex
YC 38-38 _-
t1. 80-200 _.=-
AKC 10-80              # JFrog
LTAI 16-24             # Alibaba
4b1d 38-38             # ClickHouse
v1.0- 150-200 -        # Cloudflare
pk.eyJ 60-120 ._-      # Mapbox
pk. 83-83 .
sk.eyJ 60-120 ._-
tk-us- 48-48 _-        # Scalingo
AAAAAAAAAAAAAAAAAAAAAA 80-100 %   # Twitter
cmVmd 59-59
sk-ant- 95-120 _-      # Anthropic
sk- 20-200 _-          # OpenAI and compatible providers
sk_live_ 10-99
sk_test_ 10-99
sk_prod_ 10-99
rk_live_ 10-99
rk_test_ 10-99
rk_prod_ 10-99
pk_live_ 20-99
whsec_ 20-80 +/=
ATATT3 180-200 =_-     # Atlassian
ATCTT3 180-200 =_-
b_ 44-44 _=-           # Beamer
CLOJARS_ 60-60
dapi 32-34 -           # Databricks
dnkey- 60-90 =_-
doo_v1_ 64-64
dop_v1_ 64-64
dor_v1_ 64-64
dp.pt. 40-44
dp.st. 40-60 .
duffel_test_ 40-50 =_-
duffel_live_ 40-50 =_-
dt0c01. 85-95 .
EAACEdEose0cBA 20-300
EAA 100-300
EZAK 50-60
EZTK 50-60
FLWSECK_TEST- 12-34 -
FLWPUBK_TEST- 32-34 -
FLWSECK- 32-34 -
fm1r_ 50-400 +/=_-
fm1a_ 50-400 +/=_-
fm2_ 50-400 +/=_-
fo1_ 43-43 _-
fio-u- 64-64 =_-
github_pat_ 60-90 _
ghp_ 36-36
gho_ 36-36
ghu_ 36-36
ghs_ 36-36
ghr_ 36-36
glpat- 20-300 ._-
gldt- 20-60 _-
glft- 20-60 _-
glsoat- 20-60 _-
glrt- 20-300 ._-
glrtr- 20-60 _-
glptt- 40-40
glagent- 50-60 _-
glcbt- 20-70 _-
glimt- 25-60 _-
glffct- 20-60 _-
gloas- 64-64 _-
GR1348941 20-50 _-
live_ 40-40 =_-        # GoCardless
glc_ 32-400 +/=
glsa_ 41-41 _
eyJrIjoi 70-400 =      # Grafana
pat. 40-80 ._-         # Harness
sat. 40-80 ._-
HRKU-AA 58-60 _-
hf_ 34-38
api_org_ 34-34
hvs. 90-120 _-         # Vault
hvb. 130-300 _-
s. 24-24
ico- 32-32             # Infracost
lin_api_ 40-40
live_pub_ 30-32
test_pub_ 30-32
test_ 35-35
lpjx 36-36 _-
key- 32-32             # Mailgun
pubkey- 32-32
NRAK- 27-27
NRII- 32-32 -
NRJS- 19-19
npm_ 36-36
API- 26-26
pscale_tkn_ 30-66 =._-
pscale_oauth_ 30-66 =._-
pscale_pw_ 30-66 =._-
p8e- 32-32             # Adobe
PMAK- 59-59 -
pnu_ 36-36
pul- 40-40
pypi-AgE 50-1000 _-
rdme_ 70-70
rubygems_ 48-48
SG. 66-66 =_.-
xkeysib- 81-81 -
sntrys_eyJ 80-300 +/=_
sntryu_ 64-64
s-s4t2ud- 64-64
s-s4t2af- 64-64
sc_ 40-130 ._-         # Authress
ext_ 40-130 ._-
sm_aat_ 16-16
sm_pat_ 16-16
sm_sat_ 16-16
shippo_live_ 40-40
shippo_test_ 40-40
shpat_ 32-32
shpca_ 32-32
shppa_ 32-32
shpss_ 32-32
xoxb- 17-80 -
xoxp- 17-150 -
xoxa- 17-150 -
xoxo- 17-150 -
xoxr- 17-150 -
xoxs- 17-150 -
xoxe- 17-200 -
xoxe.xoxp- 100-200 -
xoxe.xoxb- 100-200 -
xapp- 40-120 -
SK 32-32               # Twilio
AC 32-32
sgp_ 40-60 _
slk_ 64-64
sq0atp- 22-60 _-
sq0csp- 40-60 _-
EAAA 22-60 _-
sha256~ 43-43 _-       # OpenShift
dckr_pat_ 27-27 _-
dckr_oat_ 32-32 _-
secret_ 43-43          # Notion
ntn_ 46-46
figd_ 40-40 _-
gsk_ 52-52             # Groq
xai- 70-90
r8_ 37-37              # Replicate
pplx- 48-48
tfp_ 40-80 _-
vercel_ 20-40
nfp_ 36-36
rnd_ 28-28
sbp_ 40-40
phc_ 40-50
phx_ 40-50
PRIVATE-KEY- 30-90
sonar_ 20-60
squ_ 40-40
sqp_ 40-40
sqa_ 40-40
access-production- 36-36 -
access-sandbox- 36-36 -
access-development- 36-36 -
cio_ 30-60
lsv2_pt_ 40-50 _
lsv2_sk_ 40-50 _
tskey- 20-80 -
ghs- 36-36
doppler_ 40-60
`)

// issuerIndex has the issuers whose prefixes share the first byte, and the set of
// their second bytes.
type issuerIndex struct {
	seconds [2]uint64
	all     []issuer
}

// prefixes indexes the table by first byte and sorts longer prefixes first, so that
// the longest match wins.
func prefixes(table string) (by [128]issuerIndex) {
	for line := range strings.Lines(table) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		least, most, _ := strings.Cut(fields[1], "-")
		is := issuer{prefix: fields[0], least: decimal(least), most: decimal(most)}
		if len(fields) > 2 {
			is.extra = fields[2]
		}
		of, second := &by[is.prefix[0]], is.prefix[1]
		of.seconds[second/64] |= 1 << (second % 64)
		of.all = append(of.all, is)
	}
	for i := range by {
		slices.SortStableFunc(by[i].all, func(a, b issuer) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	return by
}
