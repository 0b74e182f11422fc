package servers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The account of azurite, which is public.
const (
	azuriteAccount = "devstoreaccount1"
	azuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Azure is azurite.
type Azure struct {
	Address string
	names   bucketNames
}

// Azurite starts azurite on a directory.
func Azurite(t testing.TB) *Azure {
	t.Helper()
	address, port := freeAddress(t)
	start(t, address, exec.Command(find(t, "node_modules/.bin/azurite-blob", "azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", port,
		"--location", t.TempDir(), "--silent", "--disableTelemetry"))
	return &Azure{Address: address}
}

// Container creates a container, makes its owner the user of this process, and returns its name.
func (a *Azure) Container(t testing.TB) string {
	t.Helper()
	a.SetKey(t, azuriteKey)
	name := a.names.next()
	url := a.endpoint(a.Address) + "/" + name + "?restype=container&" + a.signature("c")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Ms-Version", signedVersion)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
	return name
}

func (a *Azure) endpoint(address string) string { return "http://" + address + "/" + azuriteAccount }

// URL returns the URL of a container that is reached at an address.
func (a *Azure) URL(container, address string) string {
	return "azblob://" + container + "?" + url.Values{"endpoint": {a.endpoint(address)}, "account": {azuriteAccount}}.Encode()
}

// SetKey makes this process a user with a key.
func (a *Azure) SetKey(t testing.TB, key string) {
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	t.Setenv("AZURE_STORAGE_KEY", key)
}

// SetReader makes this process a user who can only read.
func (a *Azure) SetReader(t testing.TB) {
	a.SetKey(t, "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?"+a.signature("rl"))
}

const signedVersion = "2021-12-02"

// signature returns a shared access signature of the account with permissions ("Create an account SAS" in the documentation of Azure).
func (a *Azure) signature(permissions string) string {
	expiry := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	key, _ := base64.StdEncoding.DecodeString(azuriteKey)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join([]string{azuriteAccount, permissions, "b", "co", "", expiry, "", "", signedVersion, "", ""}, "\n")))
	return url.Values{
		"sv":  {signedVersion},
		"ss":  {"b"},
		"srt": {"co"},
		"sp":  {permissions},
		"se":  {expiry},
		"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}.Encode()
}

// ConnectionString returns the settings of the account.
func (a *Azure) ConnectionString() string {
	return "AccountName=" + azuriteAccount + ";AccountKey=" + azuriteKey + ";BlobEndpoint=" + a.endpoint(a.Address) + ";"
}
