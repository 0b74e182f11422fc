package access_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// signed returns a token with a header and a payload as they are written.
func (r *remote) signed(t *testing.T, typ any, payload string) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	if typ != nil {
		opts = opts.WithHeader("typ", typ)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: r.key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A claim counts under its exact name, once; and only an access token that is not bound to a key, now.
func TestClaimsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		p := r.provider(t)
		in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
		// with returns the claims of a valid token with some replaced by others.
		with := func(change ...string) string {
			text := fmt.Sprintf(`{"iss":%q,"sub":"a","aud":"sandpiper","exp":%d,"scope":"execute"}`, r.issuer, in(time.Hour))
			for i := 0; i < len(change); i += 2 {
				if !strings.Contains(text, change[i]) {
					t.Fatalf("%s is not in %s", change[i], text)
				}
				text = strings.Replace(text, change[i], change[i+1], 1)
			}
			return text
		}
		for name, token := range map[string]string{
			"plain":                 r.signed(t, nil, with()),
			"a JWT":                 r.signed(t, "JWT", with()),
			"of RFC 9068":           r.signed(t, "at+jwt", with()),
			"of RFC 9068, in full":  r.signed(t, "application/AT+JWT", with()),
			"with a claim typ":      r.signed(t, "JWT", with(`"sub"`, `"typ":"Bearer","sub"`)),
			"several audiences":     r.signed(t, nil, with(`"sandpiper"`, `["billing","sandpiper"]`)),
			"a similar audience":    r.signed(t, nil, with(`"scope"`, `"Aud":"billing","scope"`)),
			"a similar subject":     r.signed(t, nil, with(`"scope"`, `"SUB":"b","scope"`)),
			"within the skew, late": r.signed(t, nil, with(fmt.Sprint(in(time.Hour)), fmt.Sprint(in(-29*time.Second)))),
			"within the skew":       r.signed(t, nil, with(`"sub"`, fmt.Sprintf(`"nbf":%d,"sub"`, in(29*time.Second)))),
			"a fraction":            r.signed(t, nil, with(`"sub"`, fmt.Sprintf(`"nbf":%d.5,"sub"`, in(-time.Second)))),
		} {
			if who, err := p.Verify(t.Context(), token); err != nil || who.Tenant != parse(t, "a") || len(who.Scopes) != 1 {
				t.Errorf("%s: %+v, %v", name, who, err)
			}
		}
		for name, tc := range map[string]struct{ token, reason string }{
			"a similar audience instead": {r.signed(t, nil, with(`"aud"`, `"Aud"`)), "expected audience"},
			"a similar audience after":   {r.signed(t, nil, with(`"sandpiper"`, `"billing","Aud":"sandpiper"`)), "expected audience"},
			"a similar issuer":           {r.signed(t, nil, with(`"iss"`, `"ISS"`)), "expected issuer"},
			"a similar expiry":           {r.signed(t, nil, with(`"exp"`, `"Exp"`)), "claim exp"},
			"a similar subject instead":  {r.signed(t, nil, with(`"sub"`, `"Sub"`)), "claim sub"},
			"two audiences":              {r.signed(t, nil, with(`"sandpiper"`, `"billing","aud":"sandpiper"`)), "duplicate"},
			"two, one escaped":           {r.signed(t, nil, with(`"sandpiper"`, `"billing","\u0061ud":"sandpiper"`)), "duplicate"},
			"two subjects":               {r.signed(t, nil, with(`"sub":"a"`, `"sub":"a","sub":"a"`)), "duplicate"},
			"two of another claim":       {r.signed(t, nil, with(`"sub"`, `"x":1,"x":2,"sub"`)), "duplicate"},
			"two scopes":                 {r.signed(t, nil, with(`"scope"`, `"scope":"admin","scope"`)), "duplicate"},
			"no expiry":                  {r.signed(t, nil, with(`"exp"`, `"x"`)), "claim exp"},
			"an endless expiry":          {r.signed(t, nil, with(fmt.Sprint(in(time.Hour)), "1e300")), "claim exp"},
			"an expiry that is null":     {r.signed(t, nil, with(fmt.Sprint(in(time.Hour)), "null")), "claim exp"},
			"expired": {r.signed(t, nil, with(fmt.Sprint(in(time.Hour)), fmt.Sprint(in(-31*time.Second)))),
				"has expired"},
			"not valid yet": {r.signed(t, nil, with(`"sub"`, fmt.Sprintf(`"nbf":%d,"sub"`, in(31*time.Second)))),
				"not valid yet"},
			"valid in a distant future": {r.signed(t, nil, with(`"sub"`, `"nbf":1e300,"sub"`)), "claim nbf"},
			"nbf is text":               {r.signed(t, nil, with(`"sub"`, `"nbf":"0","sub"`)), "claim nbf"},
			"for DPoP":                  {r.signed(t, "dpop+jwt", with()), "of the type"},
			"of a logout":               {r.signed(t, "logout+jwt", with()), "of the type"},
			"of a type that is no text": {r.signed(t, 1, with()), "of the type"},
			"an ID token of Keycloak":   {r.signed(t, "JWT", with(`"sub"`, `"typ":"ID","sub"`)), "of the type"},
			"bound to a key":            {r.signed(t, "at+jwt", with(`"sub"`, `"cnf":{"jkt":"x"},"sub"`)), "bound to a key"},
			"bound to a certificate":    {r.signed(t, nil, with(`"sub"`, `"cnf":{"x5t#S256":"x"},"sub"`)), "bound to a key"},
			"of the operator":           {r.signed(t, nil, with(`"sub":"a"`, `"sub":"local"`)), "operator"},
			"a leading hyphen":          {r.signed(t, nil, with(`"sub":"a"`, `"sub":"-a"`)), "claim sub"},
			"a list":                    {r.signed(t, nil, "["+with()+"]"), "claims"},
			"more after the object":     {r.signed(t, nil, with()+"{}"), "claims"},
		} {
			who, err := p.Verify(t.Context(), tc.token)
			if !errors.Is(err, access.ErrUnknown) || !who.Tenant.IsZero() || !strings.Contains(err.Error()+fault.Message(err), tc.reason) {
				t.Errorf("%s: %+v, %v", name, who, err)
			}
		}
	})
}
