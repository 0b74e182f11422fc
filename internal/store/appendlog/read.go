package appendlog

import (
	"encoding/binary"
	"errors"
	"os"
)

// ErrDamaged is returned by Read if frames that were on disk cannot be read.
var ErrDamaged = errors.New("the log of calls is damaged")

// frame is a frame that was read.
type frame struct {
	number, synced int64
	payload        []byte
	size           int
}

// Read calls f for the frames of a file whose number is greater than after, in order, up to the first
// torn or damaged one. f may keep the payload. ErrDamaged is returned after the frames before the damage.
// The file may be appended to and reset at the same time.
func Read(path string, after int64, f func(number int64, payload []byte) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var h header
	if copy(h[:], b) < headerSize || h == (header{}) {
		return nil // nothing was synced
	}
	if !h.valid() {
		return ErrDamaged
	}
	last := int64(0)
	for b = b[headerSize:]; ; {
		r, ok := h.parse(b)
		if !ok || last != 0 && r.number != last+1 {
			break
		}
		if r.number > after {
			if err := f(r.number, r.payload); err != nil {
				return err
			}
		}
		last, b = r.number, b[r.size:]
	}
	if h.lost(b, max(last, after)) {
		return ErrDamaged
	}
	return nil
}

// parse returns the frame at the beginning of b.
func (h header) parse(b []byte) (r frame, ok bool) {
	if len(b) < frameSize {
		return r, false
	}
	r.number, r.synced = int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	n := binary.LittleEndian.Uint32(b[16:])
	if r.number <= 0 || int64(n) > int64(len(b)-frameSize) {
		return r, false
	}
	r.size = frameSize + int(n)
	r.payload = b[frameSize:r.size:r.size]
	return r, checksum(checksum(h.salt(), b[:20]), r.payload) == binary.LittleEndian.Uint32(b[20:])
}

// lost reports whether a frame in b was written when the one after last was on disk.
func (h header) lost(b []byte, last int64) bool {
	for ; len(b) >= frameSize; b = b[1:] {
		synced := int64(binary.LittleEndian.Uint64(b[8:]))
		if synced <= last || synced >= int64(binary.LittleEndian.Uint64(b)) {
			continue
		}
		if _, ok := h.parse(b); ok {
			return true
		}
	}
	return false
}
