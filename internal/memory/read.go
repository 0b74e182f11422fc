package memory

import (
	"bytes"
	"context"
	"io"
)

// firstStep is the size that is held first for a content whose size is unknown, and stepFactor
// what it is multiplied by while there is more.
const (
	firstStep  = 256 << 10
	stepFactor = 4
)

// ReadAll reads r up to its end, at most limit bytes. Before it reads more than a small content it
// calls hold with the number of bytes that it may read, in all; several times if the size is
// unknown. declared is the size of the content, negative if that is unknown.
func ReadAll(ctx context.Context, hold func(ctx context.Context, bytes int64) error, r io.Reader, declared, limit int64) ([]byte, error) {
	var b bytes.Buffer
	switch _, err := io.CopyN(&b, r, min(limit, Small+1)); {
	case err == io.EOF || limit <= Small:
		return b.Bytes(), nil
	case err != nil:
		return b.Bytes(), err
	}
	step := int64(firstStep)
	if declared >= 0 {
		limit = min(limit, max(declared, Small)+1)
		step = limit
	}
	for ; ; step *= stepFactor {
		step = min(step, limit)
		if err := hold(ctx, step); err != nil {
			return nil, err
		}
		if declared >= 0 {
			b.Grow(int(min(limit, declared+bytes.MinRead)))
		}
		_, err := io.Copy(&b, io.LimitReader(r, step-int64(b.Len())))
		if err != nil || int64(b.Len()) < step || step == limit {
			return b.Bytes(), err
		}
	}
}
