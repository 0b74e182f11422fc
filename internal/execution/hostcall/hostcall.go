// Package hostcall has the table of the calls that code in a sandbox makes to the host: their names,
// their handlers, and how their answers are recorded.
//
// The handlers are in the package of the noun that they are about, such as states. A Table serves one
// execution, whose tenant its handlers act for, regardless of the arguments: these come from hostile
// code and are decoded strictly. Handlers are called concurrently.
package hostcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Limits on host calls.
const (
	maxBytes      = 16 << 20 // of the arguments
	MaxConcurrent = 64       // calls of one execution
)

// Property describes how a method is served. Properties are combined with |.
type Property uint8

const (
	// Replayed methods are answered from the record when the execution runs again. The record of an
	// execution that has not called a tool, or a Durable method, is lost with its process.
	Replayed Property = 1 << iota
	// Durable methods are Replayed, and their answer is on disk before the code gets it: what the code
	// does with it, such as write a file, may stay, and a replay must not ask or pay again.
	Durable = 1<<iota | Replayed
	// Taped methods receive their answers from outside the tenant's data. Tests of skills record them.
	Taped = 1 << iota
	// Quick methods only read the tenant's database or change values in memory.
	Quick
	// Idle methods only wait: an execution whose other calls have ended does nothing.
	Idle
	// Unlimited methods do not count as concurrent calls. They limit themselves.
	Unlimited
)

// Scope is the execution whose code makes the calls.
type Scope struct {
	Home   *home.Home   // of its tenant
	Gate   *redact.Gate // for what its code gets and stores
	DryRun bool         // what a call changes is kept in memory, for this execution
	// Audit records a line about the execution, which the function completes.
	Audit func(audit.Kind, func(*audit.Line))
}

// Source has methods of a feature.
type Source struct {
	// Words are such that each code that makes the calls contains one, as a word of its own: an execution of such code has a
	// record from its start, so that it can be resumed.
	Words   []string
	Methods func(Scope) []Method // for one execution
}

// Handler serves a call. The answer is encoded as JSON, or by its Encode method.
type Handler = func(ctx context.Context, args []byte) (any, error)

// Encoder is an answer that encodes itself.
type Encoder interface {
	Encode() ([]byte, error)
}

// Method is a call that code may make.
type Method struct {
	Name   string
	Handle Handler
	is     Property
}

// Has reports whether the method has all properties of p.
func (m Method) Has(p Property) bool { return m.is&p == p }

// Name is the argument of methods that need nothing but a name.
type Name struct {
	Name string `json:"name"`
}

// New returns a method with the properties. The fields of A are the arguments.
func New[A any](name string, is Property, handle func(context.Context, A) (any, error)) Method {
	return Method{name, func(ctx context.Context, args []byte) (any, error) {
		a, err := decode[A](args)
		if err != nil {
			return nil, err
		}
		return handle(ctx, a)
	}, is}
}

// Table has the methods by name.
type Table map[string]Method

// NewTable returns the table of all methods. It panics if two have the same name.
func NewTable(all ...[]Method) Table {
	t := Table{}
	for _, methods := range all {
		for _, m := range methods {
			if _, twice := t[m.Name]; twice {
				panic("two host calls are named " + m.Name)
			}
			t[m.Name] = m
		}
	}
	return t
}

// decode decodes arguments strictly; no arguments are the zero value.
func decode[A any](args []byte) (a A, err error) {
	if len(args) > maxBytes {
		return a, fault.New(fault.Invalid, "the call's arguments have %d bytes; at most %d are allowed", len(args), maxBytes)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		return a, nil
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return a, fault.Wrap(fault.Invalid, err, "the call's arguments do not match its parameters")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return a, fault.New(fault.Invalid, "the call's arguments are more than one JSON value")
	}
	return a, nil
}
