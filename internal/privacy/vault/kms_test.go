//go:build kms

package vault

import (
	"context"
	"crypto/cipher"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/tink-crypto/tink-go-gcpkms/v2/integration/gcpkms"
	"github.com/tink-crypto/tink-go/v2/tink"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Each fake service implements the protocol of the vendor's client and encrypts.

func newTestAEAD(t *testing.T, key byte) cipher.AEAD {
	t.Helper()
	aead, err := sealed.NewAEAD([]byte(strings.Repeat(string(key), keySize)))
	if err != nil {
		t.Fatal(err)
	}
	return aead
}

// awsService implements AWS KMS.
func awsService(t *testing.T, aead cipher.AEAD) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			KeyId                     string
			Plaintext, CiphertextBlob []byte
			EncryptionContext         map[string]string
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || !strings.Contains(r.Header.Get("Authorization"), "Credential=test/") {
			t.Errorf("request: %v, signed %q", err, r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		about := []byte(fmt.Sprint(q.KeyId, q.EncryptionContext))
		if r.Header.Get("X-Amz-Target") == "TrentService.Encrypt" {
			json.NewEncoder(w).Encode(map[string]any{"CiphertextBlob": aead.Seal(nil, nil, q.Plaintext, about), "KeyId": q.KeyId})
			return
		}
		plain, err := aead.Open(nil, nil, q.CiphertextBlob, about)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]string{"__type": "InvalidCiphertextException"})
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"Plaintext": plain, "KeyId": q.KeyId})
	})
}

func aws(t *testing.T, aead cipher.AEAD) Master {
	s := httptest.NewServer(awsService(t, aead))
	t.Cleanup(s.Close)
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_KMS": s.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
	} {
		t.Setenv(name, value)
	}
	return open(t, "aws-kms://arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab")
}

// transitService implements Vault's transit engine.
func transitService(t *testing.T, aead cipher.AEAD) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Plaintext  []byte
			About      []byte `json:"associated_data"`
			Ciphertext string
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Header.Get("X-Vault-Token") != "test" {
			t.Errorf("request: %v, token %q", err, r.Header.Get("X-Vault-Token"))
		}
		switch r.URL.Path {
		case "/v1/transit/encrypt/sandpiper":
			sealed, _ := json.Marshal(aead.Seal(nil, nil, q.Plaintext, q.About))
			fmt.Fprintf(w, `{"data": {"ciphertext": "vault:v1:%s"}}`, strings.Trim(string(sealed), `"`))
		case "/v1/transit/decrypt/sandpiper":
			var sealed []byte
			err := json.Unmarshal([]byte(`"`+strings.TrimPrefix(q.Ciphertext, "vault:v1:")+`"`), &sealed)
			plain, damaged := aead.Open(nil, nil, sealed, q.About)
			if err != nil || damaged != nil {
				http.Error(w, `{"errors": ["cipher: message authentication failed"]}`, http.StatusBadRequest)
				return
			}
			json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"plaintext": plain}})
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
	})
}

func transit(t *testing.T, aead cipher.AEAD) Master {
	s := httptest.NewTLSServer(transitService(t, aead))
	t.Cleanup(s.Close)
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VAULT_ADDR", "https://another.example.com")
	t.Setenv("VAULT_CACERT", certificate)
	t.Setenv("VAULT_TOKEN", "test")
	return open(t, "hcvault://"+strings.TrimPrefix(s.URL, "https://")+"/transit/keys/sandpiper")
}

// googleService answers as Google Cloud KMS does.
type googleService struct {
	kmspb.UnimplementedKeyManagementServiceServer
	aead cipher.AEAD
}

func sum(b []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
}

func (s googleService) Encrypt(_ context.Context, q *kmspb.EncryptRequest) (*kmspb.EncryptResponse, error) {
	sealed := s.aead.Seal(nil, nil, q.Plaintext, append([]byte(q.Name), q.AdditionalAuthenticatedData...))
	return &kmspb.EncryptResponse{Name: q.Name, Ciphertext: sealed, CiphertextCrc32C: sum(sealed),
		VerifiedPlaintextCrc32C: q.PlaintextCrc32C.GetValue() == sum(q.Plaintext).Value, VerifiedAdditionalAuthenticatedDataCrc32C: true}, nil
}

func (s googleService) Decrypt(_ context.Context, q *kmspb.DecryptRequest) (*kmspb.DecryptResponse, error) {
	plain, err := s.aead.Open(nil, nil, q.Ciphertext, append([]byte(q.Name), q.AdditionalAuthenticatedData...))
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "Decryption failed")
	}
	return &kmspb.DecryptResponse{Plaintext: plain, PlaintextCrc32C: sum(plain)}, nil
}

func google(t *testing.T, aead cipher.AEAD) Master {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	kmspb.RegisterKeyManagementServiceServer(s, googleService{aead: aead})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	m := open(t, "gcp-kms://projects/p/locations/global/keyRings/r/cryptoKeys/k").(*kmsMaster)
	m.dial = func(ctx context.Context) (tink.AEADWithContext, error) { // the same client with another address
		return gcpkms.GetAEADWithContext(ctx, m.uri, gcpkms.WithGoogleAPIClientOptions(
			option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))
	}
	return m
}

func open(t *testing.T, text string) Master {
	t.Helper()
	m, err := OpenMaster(t.Context(), text, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if m.ID() != text {
		t.Errorf("the ID of %s is %s", text, m.ID())
	}
	return m
}

var services = map[string]func(*testing.T, cipher.AEAD) Master{"AWS KMS": aws, "Vault": transit, "Google Cloud KMS": google}

func TestKMSWrapsKeys(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			master := service(t, newTestAEAD(t, 1))
			for _, id := range []string{"a", "b"} {
				v, db := serviceVault(t, id, master)
				value := Value{Type: detect.Email, Text: "Ada@example.com"}
				tokens, err := v.Tokenize(t.Context(), "", []Value{value})
				if err != nil {
					t.Fatal(err)
				}
				again := New(Config{DB: db, Tenant: v.cfg.Tenant, Master: master})
				if got, err := again.Restore(t.Context(), "", tokens); err != nil || got[tokens[0]] != value {
					t.Errorf("%s gives %v, %v", tokens[0], got, err)
				}
				other := New(Config{DB: db, Tenant: v.cfg.Tenant, Master: service(t, newTestAEAD(t, 2))})
				if _, err := other.Restore(t.Context(), "", tokens); fault.KindOf(err) != fault.Unavailable || fault.Hint(err) == "" {
					t.Errorf("with another key: %v", err)
				}
			}
		})
	}
}

// serviceVault returns the vault of a tenant in a database of its own.
func serviceVault(t *testing.T, id string, master Master) (*Vault, *store.DB) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), []store.Migration{{Number: 1, Name: "vault", SQL: Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	who, err := tenant.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{DB: db, Tenant: who, Master: master}), db
}

func TestKMSBindsKeyToTenantAndUse(t *testing.T) {
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			master := service(t, newTestAEAD(t, 1))
			wrapped, err := master.Wrap(t.Context(), make([]byte, keySize), []byte("a\x00id"))
			if err != nil {
				t.Fatal(err)
			}
			if key, err := master.Unwrap(t.Context(), wrapped, []byte("a\x00id")); err != nil || len(key) != keySize {
				t.Errorf("%d bytes, %v", len(key), err)
			}
			if _, err := master.Unwrap(t.Context(), wrapped, []byte("b\x00id")); fault.KindOf(err) != fault.Unavailable {
				t.Errorf("for another tenant: %v", err)
			}
		})
	}
}

func TestKMSUnavailable(t *testing.T) {
	master := aws(t, newTestAEAD(t, 1))
	t.Setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:1")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	v, _ := serviceVault(t, "a", master)
	_, err := v.Tokenize(t.Context(), "", []Value{{Type: detect.Email, Text: "ada@example.com"}})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "aws-kms://arn:aws") || fault.Hint(err) == "" {
		t.Error(err)
	}
}
