package daemon

import (
	"errors"
	"slices"
	"sync"
)

// closers closes what was opened, once and in reverse order.
type closers struct {
	all  []func() error
	once sync.Once
	err  error
}

func (c *closers) add(f func() error) { c.all = append(c.all, f) }

func (c *closers) close() error {
	c.once.Do(func() {
		for _, f := range slices.Backward(c.all) {
			c.err = errors.Join(c.err, f())
		}
	})
	return c.err
}
