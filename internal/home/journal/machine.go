package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// State is the state of a run.
type State string

const (
	Queued  State = "queued"  // to be started, or to be continued
	Running State = "running" // its owner runs it, or has died
	Waiting State = "waiting" // it has no process until a time, a signal or a person
	Ended   State = "ended"

	absent State = "" // it is not stored
)

// standing is the relation of this process to the owner of a run.
type standing int

const (
	ofNobody standing = iota // it has no owner, or a dead one
	ofSelf
	ofOther // another process that is alive
)

// transition is a change of the state of a run. Nothing else changes a state, but that a run is stored when
// its first event is (insert, enterRecord), and deleted when its owner has completed it (deleteCompleted):
// these are lines of the log of calls, which any process stores in the database.
type transition string

const (
	add    transition = "add"    // a new run, or one that a daemon continues from now on
	claim  transition = "claim"  // by a daemon: it is due, or its owner has died
	reopen transition = "reopen" // by a person: it is continued from its record
	giveUp transition = "giveUp" // by its owner
	cancel transition = "cancel" // by others than its owner
	forget transition = "forget" // its record is deleted, and the run with it unless its result is kept
)

// rule describes the states for which a transition is allowed.
type rule struct {
	from, to []State
	own      bool // of a running one: if this process owns it
	dead     bool // of a running one: if it has no owner that lives
	release  bool // the run has no owner then
}

// transitions are the rules of all transitions. No rule allows one that takes a running run from
// another process that lives.
var transitions = map[transition]rule{
	add:    {from: []State{absent, Running}, to: []State{Queued, Running}, own: true},
	claim:  {from: []State{Queued, Waiting, Running}, to: []State{Running}, dead: true},
	reopen: {from: []State{Waiting, Running, Ended}, to: []State{Running}, own: true, dead: true},
	giveUp: {from: []State{Running}, to: []State{Queued, Running, Waiting, Ended}, own: true, release: true},
	cancel: {from: []State{Queued, Waiting, Running}, to: []State{Ended}, dead: true, release: true},
	forget: {from: []State{Waiting, Running, Ended}, to: []State{absent, Ended}, dead: true, release: true},
}

// allows reports whether t changes a run from one state to another.
func (t transition) allows(from, to State, s standing) bool {
	r := transitions[t]
	if from == Running && !(s == ofSelf && r.own || s == ofNobody && r.dead) {
		return false
	}
	return slices.Contains(r.from, from) && slices.Contains(r.to, to)
}

// position returns the state of a run and the relation of this process to its owner.
func position(ctx context.Context, p *Process, tx *store.Tx, id string) (s State, of standing, err error) {
	var owner string
	err = tx.QueryRowContext(ctx, "SELECT state, owner FROM runs WHERE execution = ?", id).Scan(&s, &owner)
	if errors.Is(err, sql.ErrNoRows) {
		return absent, ofNobody, nil
	}
	if err != nil || owner == "" {
		return s, ofNobody, err
	}
	own, err := p.name()
	switch {
	case owner == own:
		of = ofSelf
	case p.isAlive(owner):
		of = ofOther
	}
	return s, of, err
}

// move makes a transition of a run that is stored, and sets further columns. It returns false, and
// changes nothing, if the transition is not allowed.
func move(ctx context.Context, p *Process, tx *store.Tx, id string, t transition, to State, set string, args ...any) (bool, error) {
	from, of, err := position(ctx, p, tx, id)
	if err != nil || from == absent || !t.allows(from, to, of) {
		return false, err
	}
	if to == absent {
		_, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE execution = ?", id)
		return err == nil, err
	}
	owner := ""
	if to == Running && !transitions[t].release {
		if owner, err = p.name(); err != nil {
			return false, err
		}
	}
	if set != "" {
		set = ", " + set
	}
	args = append([]any{string(to), owner, time.Now().UnixMilli()}, append(args, id)...)
	_, err = tx.ExecContext(ctx, "UPDATE runs SET state = ?, owner = ?, changed = ?"+set+" WHERE execution = ?", args...)
	return err == nil, err
}
