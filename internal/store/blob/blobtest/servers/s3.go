package servers

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 is a server with the API of S3.
type S3 struct {
	Address     string
	user, admin [2]string // access key, secret key
	names       bucketNames
}

// Versitygw starts versitygw on a directory.
func Versitygw(t testing.TB) *S3 {
	t.Helper()
	program := find(t, "versitygw")
	dir := t.TempDir()
	for _, name := range []string{"data", "users"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	address, _ := freeAddress(t)
	s := &S3{Address: address, admin: [2]string{"admin-key", "admin-secret"}, user: [2]string{"user-key", "user-secret"}}
	start(t, address, exec.Command(program, "--port", address, "--access", s.admin[0], "--secret", s.admin[1], "--quiet", "--keep-alive",
		"--iam-dir", filepath.Join(dir, "users"), "posix", filepath.Join(dir, "data")))
	user := exec.Command(program, "admin", "--access", s.admin[0], "--secret", s.admin[1], "--endpoint-url", "http://"+address,
		"create-user", "--access", s.user[0], "--secret", s.user[1], "--role", "user")
	if out, err := user.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", user, err, out)
	}
	return s
}

// Moto starts moto, which checks no credentials.
func Moto(t testing.TB) *S3 {
	t.Helper()
	address, port := freeAddress(t)
	start(t, address, exec.Command(find(t, "moto/bin/moto_server", "moto_server"), "-H", "127.0.0.1", "-p", port))
	return &S3{Address: address, admin: [2]string{"any", "any"}}
}

// Bucket creates a bucket, makes its owner the user of this process, and returns its name.
func (s *S3) Bucket(t testing.TB) string {
	t.Helper()
	s.SetUser(t)
	name := s.names.next()
	if err := s.client(t).MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// URL returns the URL of a bucket that is reached at an address.
func (s *S3) URL(bucket, address string) string {
	query := url.Values{"endpoint": {"http://" + address}, "region": {"us-east-1"}, "path_style": {"true"}}
	return "s3://" + bucket + "?" + query.Encode()
}

// SetUser makes this process the owner of all buckets.
func (s *S3) SetUser(t testing.TB) {
	t.Setenv("AWS_ACCESS_KEY_ID", s.admin[0])
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.admin[1])
}

// SetWrongUser makes this process a user whose secret key is wrong.
func (s *S3) SetWrongUser(t testing.TB) {
	s.SetUser(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
}

// SetReader makes this process a user who can only read a bucket.
func (s *S3) SetReader(t testing.TB, bucket string) {
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":["` + s.user[0] + `"],
		"Action":["s3:GetObject","s3:ListBucket"],"Resource":["arn:aws:s3:::` + bucket + `","arn:aws:s3:::` + bucket + `/*"]}]}`
	if err := s.client(t).SetBucketPolicy(t.Context(), bucket, policy); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", s.user[0])
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.user[1])
}

func (s *S3) client(t testing.TB) *minio.Client {
	c, err := minio.New(s.Address, &minio.Options{Creds: credentials.NewStaticV4(s.admin[0], s.admin[1], ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
