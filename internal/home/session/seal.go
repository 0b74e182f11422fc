package session

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// SealTables is the second migration. What the columns of the first hold in the clear
// is empty in rows with sealed; Seal encrypts the rows of earlier versions.
const SealTables = `
ALTER TABLE session_tasks ADD COLUMN sealed BLOB;
ALTER TABLE session_files ADD COLUMN sealed BLOB;
ALTER TABLE sessions ADD COLUMN sealed BLOB; -- the checkpoint
CREATE INDEX session_tasks_clear ON session_tasks (session) WHERE sealed IS NULL;
CREATE INDEX session_files_clear ON session_files (session) WHERE sealed IS NULL;
CREATE INDEX sessions_clear ON sessions (id) WHERE sealed IS NULL AND checkpoint_step IS NOT NULL;
`

// box encrypts what sessions of one tenant say. Each text is bound to its place.
type box struct {
	cipher.AEAD
	key []byte
}

func newBox(key []byte) (box, error) {
	if len(key) != 32 {
		return box{}, errors.New("session: Config needs a Key of 32 bytes")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return box{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return box{aead, key}, err
}

// What is encrypted.
const (
	ofTask       = "task"
	ofFile       = "file"
	ofCheckpoint = "checkpoint"
)

func bound(what, session string, number int) []byte {
	return []byte("sandpiper session\x00" + what + "\x00" + session + "\x00" + strconv.Itoa(number))
}

func (b box) seal(what, session string, number int, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return b.Seal(nil, nil, text, bound(what, session, number)), nil
}

func (b box) open(what, session string, number int, sealed []byte, v any) error {
	text, err := b.Open(nil, nil, sealed, bound(what, session, number))
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the log of session %q is damaged, or was encrypted with another key", session).
			WithHint("put the file key back in the data directory, from a backup, or restore the tenant's database")
	}
	return json.Unmarshal(text, v)
}

// mark stands for a path in its row: the same path has the same.
func (b box) mark(session, path string) string {
	h := hmac.New(sha256.New, b.key)
	h.Write(bound(ofFile, session, 0))
	h.Write([]byte("\x00" + path))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// said is what a step says, as it is encrypted. Bytes that are no UTF-8 stay as they
// are: all are kept as bytes.
type said struct {
	Description, Code, Result, Output, Vars []byte
}

// sealedCheckpoint is what a checkpoint says.
type sealedCheckpoint struct {
	Step, Context []byte
}

// Seal encrypts what earlier versions left in the clear, and reports whether there was
// any: until the database is compacted some of it is in free space of the file.
func (l *Log) Seal(ctx context.Context) (clear bool, err error) {
	err = l.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM session_tasks WHERE sealed IS NULL) OR EXISTS (SELECT 1 FROM session_files WHERE sealed IS NULL)
			OR EXISTS (SELECT 1 FROM sessions WHERE sealed IS NULL AND checkpoint_step IS NOT NULL)`).Scan(&clear)
	})
	if err != nil || !clear {
		return false, err
	}
	return true, l.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(l.sealTasks(ctx, tx), l.sealFiles(ctx, tx), l.sealCheckpoints(ctx, tx))
	})
}

func (l *Log) sealTasks(ctx context.Context, tx *store.Tx) error {
	type place struct {
		session string
		number  int
	}
	var all []place
	err := each(ctx, tx, "SELECT session, number FROM session_tasks WHERE sealed IS NULL", nil, func(r scanner) error {
		var p place
		err := r.Scan(&p.session, &p.number)
		all = append(all, p)
		return err
	})
	for _, p := range all {
		var s said
		if err == nil {
			err = tx.QueryRowContext(ctx, "SELECT description, code, result, output, vars FROM session_tasks WHERE session = ? AND number = ?", p.session, p.number).
				Scan(&s.Description, &s.Code, &s.Result, &s.Output, &s.Vars)
		}
		var sealed []byte
		if err == nil {
			sealed, err = l.box.seal(ofTask, p.session, p.number, s)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE session_tasks SET description = '', code = '', result = '', output = '', vars = iif(vars IS NULL, NULL, ''), sealed = ?
				WHERE session = ? AND number = ?`, sealed, p.session, p.number)
		}
	}
	return err
}

func (l *Log) sealFiles(ctx context.Context, tx *store.Tx) error {
	var all [][2]string
	err := each(ctx, tx, "SELECT session, path FROM session_files WHERE sealed IS NULL", nil, func(r scanner) error {
		var session, path string
		err := r.Scan(&session, &path)
		all = append(all, [2]string{session, path})
		return err
	})
	for _, f := range all {
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM session_files WHERE session = ? AND path = ?", f[0], f[1])
		}
		if err == nil {
			err = l.insertFile(ctx, tx, f[0], f[1])
		}
	}
	return err
}

func (l *Log) sealCheckpoints(ctx context.Context, tx *store.Tx) error {
	all := map[string]sealedCheckpoint{}
	err := each(ctx, tx, "SELECT id, checkpoint_step, checkpoint_context FROM sessions WHERE sealed IS NULL AND checkpoint_step IS NOT NULL", nil, func(r scanner) error {
		var id string
		var c sealedCheckpoint
		err := r.Scan(&id, &c.Step, &c.Context)
		all[id] = c
		return err
	})
	for id, c := range all {
		var sealed []byte
		if err == nil {
			sealed, err = l.box.seal(ofCheckpoint, id, 0, c)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE sessions SET checkpoint_step = '', checkpoint_context = '', sealed = ? WHERE id = ?", sealed, id)
		}
	}
	return err
}
