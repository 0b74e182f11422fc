package servers

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// password is that of all users of PostgreSQL.
const password = "password"

// Postgres is a PostgreSQL server with the users admin and reader.
type Postgres struct {
	Address string
	names   bucketNames
}

// StartPostgres starts PostgreSQL on an empty directory, as an ordinary user if this process is root's.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian's
	slices.Reverse(installed)
	initdb := find(t, append([]string{"postgresql/bin/initdb"}, installed...)...)
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte(password), 0o644); err != nil {
		t.Fatal(err)
	}
	address, port := freeAddress(t)
	data := filepath.Join(dir, "data")
	create := exec.Command(initdb, "-D", data, "-U", "admin", "-A", "scram-sha-256", "--pwfile", filepath.Join(dir, "password"),
		"--no-sync", "-E", "UTF8")
	asOrdinaryUser(t, create, dir)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", create, err, out)
	}
	server := exec.Command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-p", port,
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=300", "-c", "synchronous_commit=off")
	asOrdinaryUser(t, server, dir)
	start(t, address, server)
	p := &Postgres{Address: address}
	p.exec(t, "postgres", "CREATE USER reader PASSWORD '"+password+"'")
	return p
}

// Database creates a database and returns its name.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	name := "b" + p.names.next()[len("bucket-"):]
	p.exec(t, "postgres", "CREATE DATABASE "+name)
	return name
}

// AllowReading lets the user reader read all tables of a database.
func (p *Postgres) AllowReading(t testing.TB, database string) {
	p.exec(t, database, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
}

// exec runs a statement as admin. A server that has begun to listen may not be ready, so it tries for a while.
func (p *Postgres) exec(t testing.TB, database, sql string) {
	t.Helper()
	var c *pgconn.PgConn
	wait(t, func() (err error) {
		c, err = pgconn.Connect(t.Context(), p.URL(database, "admin", password, p.Address))
		return err
	})
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// URL returns the URL of a database that is reached at an address.
func (p *Postgres) URL(database, user, password, address string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     address,
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// OwnerURL is URL with the user admin.
func (p *Postgres) OwnerURL(database, address string) string {
	return p.URL(database, "admin", password, address)
}

// ReaderURL is URL with the user reader.
func (p *Postgres) ReaderURL(database string) string {
	return p.URL(database, "reader", password, p.Address)
}
