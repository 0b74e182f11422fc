//go:build amd64

package microvm

import (
	"fmt"
	"os"
	"syscall"
)

// intact reports whether the snapshot still belongs to the programs on disk: another QEMU
// could misread it.
func (b *Backend) intact() bool {
	now, err := fingerprintOf(b.qemu, b.virtiofsd, b.kernel.path)
	return err == nil && now == b.programs && (b.cfg.Intact == nil || b.cfg.Intact(false))
}

// fingerprint identifies versions of files.
type fingerprint string

func fingerprintOf(files ...string) (fingerprint, error) {
	text := ""
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintln(name, info.Size(), info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Ino)
	}
	return fingerprint(text), nil
}
