package blob

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// azureAccount is a storage account with one kind of credentials: a key, a shared access signature, or tokens of Entra ID.
type azureAccount struct {
	name     string
	endpoint string // URL of the account
	key      []byte
	shared   url.Values
	tokens   oauth2.TokenSource
}

// azureAccountOf returns the account of a URL and of the variables that Azure's command line reads. A connection string
// comes first, then a key, a signature, a federated or secret client, and the identity of the machine.
func azureAccountOf(n name, getenv func(string) string, account, endpoint string) (azureAccount, error) {
	connection := map[string]string{}
	for setting := range strings.SplitSeq(getenv("AZURE_STORAGE_CONNECTION_STRING"), ";") {
		key, value, _ := strings.Cut(setting, "=")
		connection[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	a := azureAccount{name: firstOf(account, connection["accountname"], getenv("AZURE_STORAGE_ACCOUNT"))}
	if a.name == "" {
		return a, n.invalid(errNoAccount, "it names no account; add ?account=NAME or set AZURE_STORAGE_ACCOUNT")
	}
	suffix := firstOf(connection["endpointsuffix"], "core.windows.net")
	a.endpoint = firstOf(endpoint, connection["blobendpoint"], "https://"+a.name+".blob."+suffix)
	if u, err := url.Parse(a.endpoint); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" {
		return a, n.invalid(nil, "its endpoint must be a URL such as https://ACCOUNT.blob.core.windows.net")
	}
	key := firstOf(connection["accountkey"], getenv("AZURE_STORAGE_KEY"))
	shared := strings.TrimPrefix(firstOf(connection["sharedaccesssignature"], getenv("AZURE_STORAGE_SAS_TOKEN")), "?")
	var err error
	switch {
	case key != "":
		if a.key, err = base64.StdEncoding.DecodeString(key); err != nil {
			return a, n.denied("use the key of the account, which is not in base64", nil)
		}
	case shared != "":
		if a.shared, err = url.ParseQuery(shared); err != nil {
			return a, n.denied("use the shared access signature, which is no query", nil)
		}
	default:
		a.tokens = oauth2.ReuseTokenSource(nil, &entraTokens{getenv: getenv, client: &http.Client{Timeout: tokenTime}})
	}
	return a, nil
}

// sign adds the credentials to a request.
func (a *azureAccount) sign(r *http.Request) error {
	r.Header.Set("X-Ms-Version", azureVersion)
	r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
	switch {
	case a.key != nil:
		mac := hmac.New(sha256.New, a.key)
		mac.Write([]byte(a.stringToSign(r)))
		r.Header.Set("Authorization", "SharedKey "+a.name+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	case a.shared != nil:
		query := r.URL.Query()
		for name, values := range a.shared {
			query[name] = values
		}
		r.URL.RawQuery = query.Encode()
	default:
		token, err := a.tokens.Token()
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token.AccessToken)
	}
	return nil
}

// stringToSign returns what the key of the account signs ("Authorize with Shared Key" in the documentation of Azure Storage).
func (a *azureAccount) stringToSign(r *http.Request) string {
	length := ""
	if r.ContentLength > 0 {
		length = fmt.Sprint(r.ContentLength)
	}
	lines := []string{r.Method, "", "", length, "", r.Header.Get("Content-Type"), "", "", "", r.Header.Get("If-None-Match"), "", ""}
	var headers []string
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			headers = append(headers, lower+":"+strings.TrimSpace(r.Header.Get(name)))
		}
	}
	slices.Sort(headers)
	lines = append(lines, headers...)
	lines = append(lines, "/"+a.name+r.URL.EscapedPath())
	var parameters []string
	for name, values := range r.URL.Query() {
		parameters = append(parameters, strings.ToLower(name)+":"+strings.Join(values, ","))
	}
	slices.Sort(parameters)
	return strings.Join(append(lines, parameters...), "\n")
}

// tokenTime is how long a request for a token may take.
const tokenTime = 20 * time.Second

// azureStorage is the resource for which tokens are requested.
const azureStorage = "https://storage.azure.com/"

// entraTokens requests tokens of Entra ID for a client with a secret or a federated token, as in Kubernetes, or for the
// identity of the machine.
type entraTokens struct {
	getenv func(string) string
	client *http.Client
}

func (e *entraTokens) Token() (*oauth2.Token, error) {
	tenant, client, secret := e.getenv("AZURE_TENANT_ID"), e.getenv("AZURE_CLIENT_ID"), e.getenv("AZURE_CLIENT_SECRET")
	form := url.Values{"client_id": {client}, "grant_type": {"client_credentials"}, "scope": {azureStorage + ".default"}}
	switch file := e.getenv("AZURE_FEDERATED_TOKEN_FILE"); {
	case tenant != "" && client != "" && secret != "":
		form.Set("client_secret", secret)
	case tenant != "" && client != "" && file != "":
		assertion, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", strings.TrimSpace(string(assertion)))
	default:
		return e.ofMachine(client)
	}
	host := firstOf(strings.TrimSuffix(e.getenv("AZURE_AUTHORITY_HOST"), "/"), "https://login.microsoftonline.com")
	answer, err := e.client.PostForm(host+"/"+url.PathEscape(tenant)+"/oauth2/v2.0/token", form)
	return readToken(answer, err)
}

// ofMachine requests a token from the metadata service of a virtual machine.
func (e *entraTokens) ofMachine(client string) (*oauth2.Token, error) {
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {azureStorage}}
	if client != "" {
		query.Set("client_id", client)
	}
	base := firstOf(strings.TrimSuffix(e.getenv("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "/"), "http://169.254.169.254")
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+"/metadata/identity/oauth2/token?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Metadata", "true")
	answer, err := e.client.Do(r)
	return readToken(answer, err)
}

func readToken(answer *http.Response, err error) (*oauth2.Token, error) {
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var token struct {
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"` // a string in the answer of the metadata service
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("a token was refused with HTTP status %d", answer.StatusCode)
	}
	if err := json.NewDecoder(answer.Body).Decode(&token); err != nil {
		return nil, err
	}
	seconds, err := token.ExpiresIn.Int64()
	return &oauth2.Token{AccessToken: token.AccessToken, Expiry: time.Now().Add(time.Duration(seconds) * time.Second)}, err
}
