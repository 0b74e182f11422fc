//go:build !linux

package backup

import (
	"errors"
	"os"
)

func createUnnamed(string) (*os.File, func(string) error, error) {
	return nil, nil, errors.ErrUnsupported
}
