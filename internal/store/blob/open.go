package blob

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// scheme describes the URLs of a driver.
type scheme struct {
	name       string
	parameters []string // of the query; nil means all
	login      bool     // the URL may have a user and a password
	// open returns the driver, and the prefix of keys that the URL has.
	open func(ctx context.Context, n name, u *url.URL) (d driver, prefix string, err error)
}

// drivers lists the kinds of buckets.
var drivers = []scheme{
	{"file", []string{}, false, openDirectory},
	{"s3", []string{"endpoint", "region", "path_style"}, false, openS3},
	{"gs", []string{"endpoint"}, false, openGCS},
	{"azblob", []string{"account", "endpoint"}, false, openAzure},
	{"postgres", nil, true, openPostgres},
	{"postgresql", nil, true, openPostgres},
}

// Open returns the bucket at a URL. It need not exist, unless it is a directory; the first operation tells. A
// parameter of the URL that is not listed here is an error.
//
//	file:///DIR
//	s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&path_style=true
//	gs://BUCKET/PREFIX?endpoint=URL
//	azblob://CONTAINER/PREFIX?account=NAME&endpoint=URL
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE?table=NAME&prefix=PREFIX
//
// The prefix and all parameters are optional. Open creates the tables NAME and NAME_parts; without a name, they are
// sandpiper_objects and sandpiper_objects_parts. Other parameters of postgres are those of its libraries, such as sslmode.
//
// Credentials come from the environment, as in the tools of each cloud: for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,
// the profile AWS_PROFILE of the usual files, or the role of the machine; for Google
// its application default credentials, such as the file GOOGLE_APPLICATION_CREDENTIALS, and STORAGE_EMULATOR_HOST; for
// Azure AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, a client of Entra
// ID with AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, or the identity of the machine.
//
// Errors have the URL without user, password and parameters.
func Open(ctx context.Context, rawURL string) (Bucket, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the URL of the bucket cannot be read").
			WithHint("use a URL such as file:///DIR or s3://BUCKET/PREFIX")
	}
	n := nameOf(u)
	i := slices.IndexFunc(drivers, func(s scheme) bool { return s.name == u.Scheme })
	if i < 0 {
		return nil, fault.New(fault.Invalid, "bucket %s has an unknown scheme; use %s", n, strings.Join(schemes(), ", "))
	}
	if allowed := drivers[i].parameters; allowed != nil {
		for p := range u.Query() {
			if !slices.Contains(allowed, p) {
				return nil, fault.New(fault.Invalid, "bucket %s has the unknown parameter %q", n, p).WithHint("%s", known(allowed))
			}
		}
	}
	if u.User != nil && !drivers[i].login {
		return nil, fault.New(fault.Invalid, "the URL of bucket %s has credentials; they come from the environment", n)
	}
	d, prefix, err := drivers[i].open(ctx, n, u)
	if err != nil {
		return nil, err
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		if err := checkKey(prefix); err != nil {
			d.close()
			return nil, n.invalid(err, "its prefix is no valid key: %s", keyRule)
		}
		prefix += "/"
	}
	return &bucket{driver: d, name: n, prefix: prefix}, nil
}

// nameOf returns a URL without credentials.
func nameOf(u *url.URL) name {
	return name((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

func schemes() (names []string) {
	for _, s := range drivers {
		names = append(names, s.name+"://")
	}
	return names
}

func known(parameters []string) string {
	if len(parameters) == 0 {
		return "this kind of bucket has no parameters"
	}
	return "the parameters are " + strings.Join(parameters, ", ")
}
