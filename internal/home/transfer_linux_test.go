package home_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill/skilltest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// machine opens a data directory with keys of its own.
func machine(t *testing.T, q workspace.Quota) (*home.Homes, string) {
	t.Helper()
	root := newRoot(t)
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	os.Remove(root)
	master, err := vault.OpenMaster(t.Context(), "", root)
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Repeat([]byte{byte(len(root))}, 32)
	copy(key, root)
	process := journal.NewProcess(filepath.Join(t.TempDir(), "processes"), func() ([]byte, error) { return key, nil })
	t.Cleanup(func() { process.Close() })
	return open(t, home.Config{
		Root: root, Quota: q, UIDs: -1, Process: process, Learn: time.Hour,
		Vault: func(id tenant.ID, db *store.DB) *vault.Vault {
			return vault.New(vault.Config{DB: db, Tenant: id, Master: master})
		},
		Approvals: func(id tenant.ID, db *store.DB) (*approval.Store, error) {
			return approval.New(approval.Config{DB: db, Tenant: id, Key: key})
		},
	}), root
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err, fault.Message(err))
		}
		return v
	}
}

// fillTenant gives a tenant data of every kind, and returns its token and approval.
func fillTenant(t *testing.T, h *home.Home, root string) (token vault.Token, asked string) {
	t.Helper()
	write(t, h, "data/report.csv", "a,b\n1,2\n")
	dir := filepath.Join(root, "workspaces", h.ID().Dir())
	for _, err := range []error{
		os.Chmod(filepath.Join(dir, "data/report.csv"), 0o640),
		os.WriteFile(filepath.Join(dir, "not utf-8 \xff\xfe"), []byte("x"), 0o400),
		os.Symlink("/etc/passwd", filepath.Join(dir, "outside")),
		os.Symlink("data", filepath.Join(dir, "linked")),
		os.Link(filepath.Join(dir, "data/report.csv"), filepath.Join(dir, "second name")),
		os.Mkdir(filepath.Join(dir, "closed"), 0o700),
		os.WriteFile(filepath.Join(dir, "closed/inner"), []byte("inner"), 0o000),
		os.Chmod(filepath.Join(dir, "closed"), 0o500),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sparse := must(os.Create(filepath.Join(dir, "sparse")))(t)
	if _, err := sparse.WriteAt([]byte("in the middle"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sparse.Truncate(4<<30), sparse.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Skills.Save(t.Context(), skill.Draft{Name: "double", Code: "def run(x):\n    return 2 * x\n",
		Description: "Doubles"}); err != nil {
		t.Fatal(err)
	}
	if _, err := skilltest.Open(h).Add(t.Context(), "double", skilltest.Test{Code: "from skills import double"}); err != nil {
		t.Fatal(err)
	}
	h.Recent.Add(recent.Code{Execution: "exec_recent", Code: "2 * 21"})
	h.Learned.AddSearch("twice a number", []tool.Ref{{Server: "math", Tool: "double"}})
	h.Learned.AddCall(tool.Ref{Server: "math", Tool: "double"})
	if _, err := state.Open(h).Put(t.Context(), state.Draft{Name: "cursor", Value: []byte("42")}); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(saved.Open(h).Save(t.Context(), "nightly", []byte("name: nightly")),
		fillWorkflowRun(t.Context(), h))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Sessions.Append(t.Context(), "chat-1", session.Step{Code: "x = 42", Result: "42", Began: time.Now(),
		Files: []string{"state/x"}}); err != nil {
		t.Fatal(err)
	}
	value := vault.Value{Type: detect.Email, Text: "ada@example.com"}
	tokens := must(h.Vault.Tokenize(t.Context(), "", []vault.Value{value}))(t)
	q := approval.Question{Session: "chat-1", Rule: "destructive", Shown: []byte(`{"email":"ada@example.com"}`)}
	q.Kind, q.Execution, q.Ref, q.Occurrence = approval.Call, "exec_1", tool.Ref{Server: "crm", Tool: "erase"}, 1
	q.Origin = approval.Origin{Origin: tool.Origin{Code: "2 * 21"}, Lasting: true}
	allowed := q
	allowed.Occurrence++
	r := must(h.Approvals.Create(t.Context(), allowed))(t)
	must(h.Approvals.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: approval.CommandLine, Scope: grant.Tool}))(t)
	return tokens[0], must(h.Approvals.Create(t.Context(), q))(t).ID
}

// exported returns the archive of a suspended tenant.
func exported(t *testing.T, ts *home.Homes, id tenant.ID) []byte {
	t.Helper()
	if err := ts.Suspend(id, ""); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := ts.Export(t.Context(), id, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A tenant with data of every kind is exported, deleted, and imported in another data directory
// with other keys, under its own id and under another one.
func TestExportedTenantIsImportedElsewhere(t *testing.T) {
	from, root := machine(t, workspace.Quota{})
	ada := id(t, "ada@example.org")
	h := acquire(t, from, ada.String())
	token, asked := fillTenant(t, h, root)
	h.Release(t.Context())
	archive := exported(t, from, ada)
	if err := from.Delete(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(archive, []byte("ada@example.com")) {
		t.Error("a value is in plain text in the archive")
	}
	for _, as := range []string{"ada@example.org", "Customer_B"} {
		t.Run(as, func(t *testing.T) {
			to, root := machine(t, workspace.Quota{})
			other := tenant.ID{}
			if as != ada.String() {
				other = id(t, as)
			}
			done := must(to.Import(t.Context(), bytes.NewReader(archive), other))(t)
			if done.Tenant != id(t, as) || done.Damaged != 0 || done.Skipped != 0 {
				t.Errorf("%+v", done)
			}
			imported := acquire(t, to, as)
			checkImported(t, imported, root, token, asked)
			if all := must(imported.Approvals.Grants.List(t.Context()))(t); len(all) > 0 {
				t.Errorf("an archive allows calls here: %+v", all)
			}
			if _, err := to.Import(t.Context(), bytes.NewReader(archive), other); fault.KindOf(err) != fault.Invalid ||
				!strings.Contains(fault.Message(err), "exists already") {
				t.Errorf("the second import: %v", err)
			}
			checkNothingLeft(t, root)
		})
	}
}

func checkImported(t *testing.T, h *home.Home, root string, token vault.Token, asked string) {
	t.Helper()
	dir := filepath.Join(root, "workspaces", h.ID().Dir())
	if got := read(h, "data/report.csv"); got != "a,b\n1,2\n" {
		t.Errorf("the file is %q", got)
	}
	for name, mode := range map[string]os.FileMode{"data/report.csv": 0o640, "not utf-8 \xff\xfe": 0o400, "closed": 0o500 | os.ModeDir,
		"closed/inner": 0, "data": 0o755 | os.ModeDir} {
		if fi := must(os.Lstat(filepath.Join(dir, name)))(t); fi.Mode() != mode {
			t.Errorf("%q has mode %v, want %v", name, fi.Mode(), mode)
		}
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "closed"), 0o700) })
	if target := must(os.Readlink(filepath.Join(dir, "outside")))(t); target != "/etc/passwd" {
		t.Errorf("the link is to %s", target)
	}
	a, b := must(os.Stat(filepath.Join(dir, "second name")))(t), must(os.Stat(filepath.Join(dir, "data/report.csv")))(t)
	if !os.SameFile(a, b) {
		t.Error("two names of a file became two files")
	}
	sparse := must(os.Open(filepath.Join(dir, "sparse")))(t)
	defer sparse.Close()
	text := make([]byte, 13)
	if _, err := sparse.ReadAt(text, 1<<30); err != nil || string(text) != "in the middle" || must(sparse.Stat())(t).Size() != 4<<30 {
		t.Errorf("the sparse file has %q, %v", text, err)
	}
	if u := must(h.Workspace.Usage(t.Context()))(t); u.Bytes > 1<<20 {
		t.Errorf("the sparse file takes %d bytes", u.Bytes)
	}
	if s := must(h.Skills.Find(t.Context(), "double", 0))(t); !strings.Contains(s.Code, "2 * x") {
		t.Errorf("the skill is %+v", s)
	}
	if all := must(skilltest.Open(h).List(t.Context(), "double"))(t); len(all) != 1 || all[0].Code != "from skills import double" {
		t.Errorf("the tests of the skill are %+v", all)
	}
	if s := must(state.Open(h).Get(t.Context(), "cursor"))(t); string(s.Value) != "42" {
		t.Errorf("the state is %+v", s)
	}
	if w := must(saved.Open(h).Find(t.Context(), "nightly"))(t); string(w) != "name: nightly" {
		t.Errorf("the workflow is %q", w)
	}
	if r, err := journal.FindWorkflowRun(t.Context(), h.Runs, "exec_1"); err != nil || string(r.Request) != "code" ||
		string(r.Result) != "1" {
		t.Errorf("the run is %+v, %v", r, err)
	}
	if c := must(h.Recent.Find(t.Context(), "exec_recent"))(t); c.Code != "2 * 21" {
		t.Errorf("the recent code is %+v", c)
	}
	if all := h.Learned.Uses(t.Context()).All(); len(all) != 1 || all[0].Tool != "double" || !slices.Contains(all[0].Terms, "number") {
		t.Errorf("the used tools are %+v", all)
	}
	if s := must(h.Sessions.Find(t.Context(), "chat-1"))(t); len(s.Tasks) != 1 || s.Tasks[0].Code != "x = 42" || !slices.Equal(s.StateFiles,
		[]string{"state/x"}) {
		t.Errorf("the session is %+v", s)
	}
	values := must(h.Vault.Restore(t.Context(), "", []vault.Token{token}))(t)
	if values[token].Text != "ada@example.com" {
		t.Errorf("the token %s restores to %+v", token, values)
	}
	r := must(h.Approvals.Answer(t.Context(), asked, approval.Answer{Approve: true, By: approval.CommandLine}))(t)
	if string(r.Shown) != `{"email":"ada@example.com"}` || r.Origin.Code != "2 * 21" {
		t.Errorf("the approval shows %s of %+v", r.Shown, r.Origin)
	}
}

// checkNothingLeft fails if a directory of an export or import remains.
func checkNothingLeft(t *testing.T, root string) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(root, ".new-*"))
	if len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestExportRefusesActiveTenant(t *testing.T) {
	ts, root := machine(t, workspace.Quota{})
	acquire(t, ts, "acme").Release(t.Context())
	_, err := ts.Export(t.Context(), id(t, "acme"), io.Discard)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "tenant suspend acme") {
		t.Error(err)
	}
	if _, err := ts.Export(t.Context(), id(t, "acne"), io.Discard); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	checkNothingLeft(t, root)
}

// Nothing is created from an archive that is truncated anywhere, or that was written by
// somebody else.
func TestImportRefusesOtherArchives(t *testing.T) {
	from, _ := machine(t, workspace.Quota{})
	h := acquire(t, from, "acme")
	write(t, h, "a", strings.Repeat("a", 5000))
	h.Release(t.Context())
	archive := exported(t, from, id(t, "acme"))
	to, root := machine(t, workspace.Quota{Bytes: 1 << 20, Files: 10})
	refuse := func(name string, b []byte) {
		t.Helper()
		_, err := to.Import(t.Context(), bytes.NewReader(b), tenant.ID{})
		if err == nil || fault.KindOf(err) == fault.Internal && fault.Message(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := to.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%s created %v, %v", name, all, err)
		}
		if d, err := os.ReadDir(filepath.Join(root, "workspaces")); err != nil || len(d) != 0 {
			t.Errorf("%s created workspaces %v, %v", name, d, err)
		}
		checkNothingLeft(t, root)
	}
	for n := 0; n < len(archive)-1024; n += 1 + len(archive)/60 {
		refuse("truncated", archive[:n])
	}
	refuse("empty", nil)
	refuse("text", []byte(strings.Repeat("not an archive\n", 100)))
	refuse("continued", rewrite(t, archive, func(h *tar.Header, b []byte) ([]*tar.Header, []byte) {
		if h.Name == "end.json" {
			return []*tar.Header{h, {Name: "files/more", Typeflag: tar.TypeReg}}, b
		}
		return []*tar.Header{h}, b
	}))
	for name, h := range map[string]*tar.Header{
		"parent":     {Name: "files/../../escaped", Typeflag: tar.TypeReg},
		"absolute":   {Name: "/tmp/escaped", Typeflag: tar.TypeReg},
		"absolute 2": {Name: "files//tmp/escaped", Typeflag: tar.TypeReg},
		"device":     {Name: "files/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		"FIFO":       {Name: "files/fifo", Typeflag: tar.TypeFifo},
		"hard link":  {Name: "files/passwd", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		"twice":      {Name: "files/a", Typeflag: tar.TypeReg},
		"orphan":     {Name: "files/no/parent", Typeflag: tar.TypeReg},
		"long":       {Name: "files/" + strings.Repeat("x", 300), Typeflag: tar.TypeReg},
		"uncounted":  {Name: "files/b", Typeflag: tar.TypeReg},
		"sparse": {Name: "files/b", Typeflag: tar.TypeReg,
			PAXRecords: map[string]string{"SANDPIPER.size": "10", "SANDPIPER.parts": "9+5"}},
	} {
		refuse(name, rewrite(t, archive, func(have *tar.Header, b []byte) ([]*tar.Header, []byte) {
			if have.Name == "end.json" {
				return []*tar.Header{h, have}, b
			}
			return []*tar.Header{have}, b
		}))
	}
	refuse("newer", rewrite(t, archive, func(h *tar.Header, b []byte) ([]*tar.Header, []byte) {
		return []*tar.Header{h}, bytes.Replace(b, []byte(`"format":1`), []byte(`"format":2`), 1)
	}))
	refuse("tenant", rewrite(t, archive, func(h *tar.Header, b []byte) ([]*tar.Header, []byte) {
		return []*tar.Header{h}, bytes.Replace(b, []byte(`"acme"`), []byte(`"../x"`), 1)
	}))
	if _, err := to.Import(t.Context(), bytes.NewReader(archive), tenant.ID{}); err != nil {
		t.Error(err)
	}
}

// rewrite returns an archive with other entries. The content belongs to the last header.
func rewrite(t *testing.T, archive []byte, change func(*tar.Header, []byte) ([]*tar.Header, []byte)) []byte {
	t.Helper()
	var out bytes.Buffer
	tr, tw := tar.NewReader(bytes.NewReader(archive)), tar.NewWriter(&out)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		b := must(io.ReadAll(tr))(t)
		all, b := change(h, b)
		for i, h := range all {
			content := b
			if len(all) > 1 && (h.Name != "end.json") {
				content = nil
			}
			h.Size = int64(len(content))
			if err := tw.WriteHeader(h); err != nil {
				t.Fatal(i, err)
			}
			if _, err := tw.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	tw.Close()
	return out.Bytes()
}

// A database in an archive may come from anybody who knows the recipient.
func TestImportRefusesChangedDatabase(t *testing.T) {
	for name, change := range map[string]string{
		"trigger": "CREATE TRIGGER t AFTER INSERT ON skills BEGIN DELETE FROM sessions; END",
		"table":   "CREATE TABLE more (x)",
		"skill": "INSERT INTO skills (name, version, code, code_hash, description, tags, created, updated, tools, instructions) VALUES " +
			"('../../x', 1, 'x', '', '', '[]', 0, 0, '[]', '')",
		"NUL": "INSERT INTO sealed (kind, name, version, updated, size, body) VALUES ('workflow', 'a' || char(0) || 'b', 1, 0, " +
			"0, x'00')",
		"process": "INSERT INTO runs (execution, state, owner, created, changed, bytes, request) VALUES ('exec_a', 'running', " +
			"'../private/acme/use', 0, 0, 0, x'')",
		"escape": "INSERT INTO schedule_runs (schedule, due, handled, state, execution) VALUES ('a' || char(27) || '[2J', 0, 0, " +
			"'failed', '')",
		"line":    "INSERT INTO sealed (kind, name, version, updated, size, body) VALUES ('state', 'a' || char(10) || 'b', 1, 0, 0, x'00')",
		"session": "INSERT INTO sessions (id, started, ended, changed, next, tasks, bytes) VALUES ('../../x', 0, 0, 1, 1, 0, 0)",
	} {
		t.Run(name, func(t *testing.T) {
			from, root := machine(t, workspace.Quota{})
			acquire(t, from, "acme").Release(t.Context())
			from.Close()
			db := must(store.Open(context.Background(), filepath.Join(root, "private/acme/tenant.db"), home.Migrations))(t)
			err := db.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.ExecContext(t.Context(), change); return err })
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			again := open(t, home.Config{Root: root, UIDs: -1})
			if err := again.Suspend(id(t, "acme"), ""); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if _, err := again.Export(t.Context(), id(t, "acme"), &b); err != nil {
				if name == "session" { // found already
					return
				}
				t.Fatal(err)
			}
			to, _ := machine(t, workspace.Quota{})
			if _, err := to.Import(t.Context(), &b, tenant.ID{}); err == nil {
				t.Error("it was imported")
			}
		})
	}
}

// The number of the last commit of an archive or a backup is not that of a commit here.
func TestArchivesAndBackupsForgetCommits(t *testing.T) {
	from, root := machine(t, workspace.Quota{})
	acquire(t, from, "acme").Release(t.Context())
	from.Close()
	db := must(store.Open(context.Background(), filepath.Join(root, "private/acme/tenant.db"), home.Migrations))(t)
	var err error
	for _, change := range []string{"INSERT INTO sealed (kind, name, version, updated, size, body) VALUES ('state', 'x', 1, 0, 0, x'00')",
		"UPDATE commits SET n = 7258118399999990000"} {
		err = errors.Join(err, db.Update(t.Context(), func(tx *store.Tx) error {
			_,
				err := tx.ExecContext(t.Context(), change)
			return err
		}))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	again := open(t, home.Config{Root: root, UIDs: -1})
	archive, saved := exported(t, again, id(t, "acme")), backup(t, again, id(t, "acme"))
	imported, restored := machine(t, workspace.Quota{})
	must(imported.Import(t.Context(), bytes.NewReader(archive), tenant.ID{}))(t)
	one, of := machine(t, workspace.Quota{})
	must(one.Restore(t.Context(), id(t, "acme"), false, entries(saved)))(t)
	for name, root := range map[string]string{"import": restored, "restore of a tenant": of, "restore of all": restore(t, saved, root)} {
		db := must(store.Open(context.Background(), filepath.Join(root, "private/acme/tenant.db"), home.Migrations))(t)
		var n int64
		err = db.View(t.Context(), func(tx *store.Tx) error {
			return tx.QueryRowContext(t.Context(), "SELECT coalesce(max(n), 0) FROM commits").Scan(&n)
		})
		if err := errors.Join(err, db.Close()); err != nil || n > time.Now().Add(time.Hour).UnixNano() {
			t.Errorf("%s: the last commit is %d, %v", name, n, err)
		}
	}
}

// An archive does not make entries writable for other users of the machine, nor files that run as
// their owner.
func TestImportMasksPermissions(t *testing.T) {
	from, _ := machine(t, workspace.Quota{})
	h := acquire(t, from, "acme")
	write(t, h, "dir/f", "x")
	h.Release(t.Context())
	archive := rewrite(t, exported(t, from, id(t, "acme")), func(h *tar.Header, b []byte) ([]*tar.Header, []byte) {
		if strings.HasPrefix(h.Name, "files/dir") {
			h.Mode = 0o7777
		}
		return []*tar.Header{h}, b
	})
	to, root := machine(t, workspace.Quota{})
	must(to.Import(t.Context(), bytes.NewReader(archive), tenant.ID{}))(t)
	for _, name := range []string{"dir", "dir/f"} {
		fi := must(os.Stat(filepath.Join(root, "workspaces/acme", name)))(t)
		if fi.Mode()&(0o022|os.ModeSetuid|os.ModeSetgid|os.ModeSticky) != 0 || fi.Mode().Perm() != 0o755 {
			t.Errorf("%s has %v", name, fi.Mode())
		}
	}
}

func TestImportAppliesQuota(t *testing.T) {
	from, _ := machine(t, workspace.Quota{})
	h := acquire(t, from, "acme")
	write(t, h, "a", strings.Repeat("a", 2<<20))
	h.Release(t.Context())
	archive := exported(t, from, id(t, "acme"))
	for _, q := range []workspace.Quota{{Bytes: 1 << 20}, {Files: 1, Bytes: 1}} {
		to, root := machine(t, q)
		_, err := to.Import(t.Context(), bytes.NewReader(archive), tenant.ID{})
		if fault.KindOf(err) != fault.Exhausted {
			t.Error(err)
		}
		checkNothingLeft(t, root)
	}
}
