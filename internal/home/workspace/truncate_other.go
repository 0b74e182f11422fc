//go:build !linux

package workspace

import "os"

func openToTruncate(d *dir, name string) (*os.File, error) {
	if err := d.refuseLinks(name); err != nil {
		return nil, err
	}
	return d.root.OpenFile(name, os.O_WRONLY, 0)
}
