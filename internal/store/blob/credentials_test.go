package blob_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest/servers"
)

// tokenServer answers requests for tokens, and counts them.
func tokenServer(t *testing.T, status int, answer string) (url string, asked *[]string) {
	asked = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		*asked = append(*asked, r.URL.Path+" "+r.Form.Encode()+" "+r.Header.Get("Metadata"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// A refused token is Denied, and nothing is sent to the bucket.
func TestGoogleRefusesToken(t *testing.T) {
	tokens, asked := tokenServer(t, http.StatusBadRequest, `{"error":"invalid_grant"}`)
	service, sent := tokenServer(t, http.StatusOK, "{}")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	key, err := json.Marshal(map[string]string{
		"type":         "service_account",
		"client_email": "test@example.com",
		"private_key":  string(block),
		"token_uri":    tokens,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file+".none")
	if _, err := blob.Open(t.Context(), "gs://bucket"); fault.KindOf(err) != fault.Denied {
		t.Errorf("without a file: %v", err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	b := open(t, "gs://bucket?endpoint="+service)
	err = b.Create(t.Context(), "key", strings.NewReader("x"))
	if fault.KindOf(err) != fault.Denied || errors.Is(err, blob.ErrUnknown) || len(*sent) > 0 || len(*asked) == 0 {
		t.Errorf("%v; requests: %q", err, *sent)
	}
	if _, err := b.Get(t.Context(), "key", blob.Range{}); fault.KindOf(err) != fault.Denied {
		t.Error(err)
	}
}

// The tokens of Entra ID are requested for a client, or for the machine, and used until they expire.
func TestAzureTokens(t *testing.T) {
	for _, name := range []string{
		"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET",
	} {
		t.Setenv(name, "")
	}
	tokens, asked := tokenServer(t, http.StatusOK, `{"access_token":"granted","expires_in":"3600"}`)
	var seen []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusCreated)
	}))
	defer service.Close()
	t.Setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", tokens)
	t.Setenv("AZURE_AUTHORITY_HOST", tokens)
	t.Setenv("AZURE_CLIENT_ID", "client")
	b := open(t, "azblob://c?account=a&endpoint="+service.URL)
	for _, key := range []string{"a", "b"} {
		if err := b.Create(t.Context(), key, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_CLIENT_SECRET", "secret")
	if err := open(t, "azblob://c?account=a&endpoint="+service.URL).Create(t.Context(), "a", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if len(*asked) != 2 || !strings.HasPrefix((*asked)[0], "/metadata/identity/oauth2/token") || !strings.HasSuffix((*asked)[0], " true") ||
		!strings.HasPrefix((*asked)[1], "/tenant/oauth2/v2.0/token ") || !strings.Contains((*asked)[1], "client_secret=secret") {
		t.Errorf("requests for tokens: %q", *asked)
	}
	if strings.Join(seen, ",") != "Bearer granted,Bearer granted,Bearer granted" {
		t.Errorf("requests: %q", seen)
	}
}

// Credentials of the settings of Azure that are not keys.
func TestAzureConnectionString(t *testing.T) {
	longtest.SkipSlow(t)
	a := servers.Azurite(t)
	container := a.Container(t)
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", a.ConnectionString())
	t.Setenv("AZURE_STORAGE_KEY", "")
	create(t, "azblob://"+container+"/prefix", "key")
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")
	_, err := blob.Open(t.Context(), "azblob://"+container)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "names no account") {
		t.Errorf("without an account: %v", err)
	}
}
