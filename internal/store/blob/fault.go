package blob

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// name is the URL of a bucket without credentials. Its methods make the errors of drivers.
type name string

func (n name) exists(key string) error {
	return fault.Wrap(fault.Invalid, ErrExists, "bucket %s has an object %q already", n, key)
}

func (n name) notFound(key string) error {
	return fault.New(fault.NotFound, "bucket %s has no object %q", n, key)
}

func (n name) denied(op operation, cause error) error {
	return fault.Wrap(fault.Denied, cause, "bucket %s does not allow to %s", n, op).
		WithHint("check the credentials, and that they may create, read, list and delete objects")
}

func (n name) noBucket(cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "bucket %s does not exist", n).WithHint("create it, or correct the URL")
}

func (n name) invalid(cause error, format string, args ...any) error {
	return fault.Wrap(fault.Invalid, cause, "bucket %s: %s", n, fmt.Sprintf(format, args...))
}

// unavailable is the error of an operation that has changed nothing, or can be repeated.
func (n name) unavailable(ctx context.Context, op operation, cause error) error {
	if ctx.Err() != nil && !errors.Is(cause, ctx.Err()) {
		cause = errors.Join(context.Cause(ctx), cause)
	}
	return fault.Wrap(fault.Unavailable, cause, "bucket %s could not %s", n, op)
}

// unknown is the error of a create that was sent and not answered.
func (n name) unknown(key string, cause error) error {
	return fault.Wrap(fault.Unavailable, errors.Join(ErrUnknown, cause), "bucket %s did not say whether it created %q", n, key).
		WithHint("create it again, and compare the object if it exists")
}

// operation completes "could not …" in messages.
type operation string

func creating(key string) operation   { return operation(fmt.Sprintf("create %q", key)) }
func reading(key string) operation    { return operation(fmt.Sprintf("read %q", key)) }
func deleting(key string) operation   { return operation(fmt.Sprintf("delete %q", key)) }
func listing(prefix string) operation { return operation(fmt.Sprintf("list %q", prefix)) }
