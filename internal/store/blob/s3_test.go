package blob_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest/servers"
)

func setupS3(s *servers.S3) blobtest.Setup {
	return blobtest.Setup{
		URL:     func(t testing.TB) string { return s.URL(s.Bucket(t), s.Address) },
		Missing: func(t testing.TB) string { s.SetUser(t); return s.URL("missing", s.Address) },
		Via: func(t testing.TB, address func(string) string) string {
			return s.URL(s.Bucket(t), address(s.Address))
		},
	}
}

func TestVersitygw(t *testing.T) {
	longtest.SkipSlow(t)
	s := servers.Versitygw(t)
	setup := setupS3(s)
	setup.Denied = func(t testing.TB) string {
		bucket := s.Bucket(t)
		s.SetWrongUser(t)
		return s.URL(bucket, s.Address)
	}
	setup.ReadOnly = func(t testing.TB, use func(blob.Bucket)) {
		bucket := s.Bucket(t)
		create(t, s.URL(bucket, s.Address), "kept")
		s.SetReader(t, bucket)
		use(open(t, s.URL(bucket, s.Address)))
	}
	blobtest.Run(t, setup)
}

func TestMoto(t *testing.T) {
	longtest.Skip(t) // it is slow
	setup := setupS3(servers.Moto(t))
	setup.Listed = 1100
	setup.InMemory = true
	blobtest.Run(t, setup)
}

// Buckets below two prefixes of one have nothing in common, and a longer prefix is not in a shorter one.
func TestPrefixes(t *testing.T) {
	longtest.SkipSlow(t)
	s := servers.Versitygw(t)
	whole := s.Bucket(t)
	url := func(prefix string) string { return strings.Replace(s.URL(whole, s.Address), "?", prefix+"?", 1) }
	for _, prefix := range []string{"/a/b", "/a/bc/", ""} {
		create(t, url(prefix), "key")
		for _, twice := range []string{"", "/"} {
			err := open(t, url(prefix+twice)).Create(t.Context(), "key", strings.NewReader("x"))
			if !errors.Is(err, blob.ErrExists) {
				t.Errorf("%s: %v", prefix+twice, err)
			}
		}
	}
	for prefix, want := range map[string][]string{
		"/a/b":  {"key"},
		"/a/bc": {"key"},
		"/a":    {"b/key", "bc/key"},
		"":      {"a/b/key", "a/bc/key", "key"},
	} {
		var got []string
		for o, err := range open(t, url(prefix)).List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, o.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", prefix, got, want)
		}
	}
}

// A proxy removes the condition of creates, as a server does that does not know it.
func TestProbeFindsServerThatIgnoresTheCondition(t *testing.T) {
	longtest.SkipSlow(t)
	s := servers.Moto(t)
	bucket := s.Bucket(t)
	for _, ignored := range []string{http.MethodPut, http.MethodPost} { // of one part, and of several
		proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.Address})
			if r.In.Method == ignored {
				r.Out.Header.Del("If-None-Match")
			}
		}})
		defer proxy.Close()
		err := blob.Probe(t.Context(), open(t, s.URL(bucket, strings.TrimPrefix(proxy.URL, "http://"))))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "create-if-absent") {
			t.Errorf("without the condition of %s: %v", ignored, err)
		}
	}
}
