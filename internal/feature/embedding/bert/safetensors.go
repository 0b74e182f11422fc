package bert

import (
	"encoding/binary"
	"encoding/json"
	"math"
)

// tensors are the weights of a published model, by name. The format is that of
// https://github.com/huggingface/safetensors: the length of the header as uint64, the
// header as JSON, then the numbers.
type tensors map[string][]byte

func parseTensors(data []byte) (tensors, error) {
	const length = 8
	if len(data) < length || binary.LittleEndian.Uint64(data) > uint64(min(len(data)-length, maxHeader)) {
		return nil, unreadable(nil, WeightsFile)
	}
	begin := length + int(binary.LittleEndian.Uint64(data))
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data[length:begin], &entries); err != nil {
		return nil, unreadable(err, WeightsFile)
	}
	delete(entries, "__metadata__")
	all, numbers := tensors{}, data[begin:]
	for name, text := range entries {
		var entry struct {
			Type    string    `json:"dtype"`
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(text, &entry); err != nil {
			return nil, unreadable(err, WeightsFile)
		}
		from, to := entry.Offsets[0], entry.Offsets[1]
		if from > to || to > uint64(len(numbers)) {
			return nil, unreadable(nil, WeightsFile)
		}
		if entry.Type == "F32" {
			all[name] = numbers[from:to]
		}
	}
	return all, nil
}

// section returns the numbers of a section of a model file.
func (t tensors) section(s section) ([]float32, error) {
	numbers := make([]float32, 0, s.size)
	for _, name := range s.tensors {
		data, ok := t[name]
		if !ok || len(data) != 4*s.size/len(s.tensors) {
			return nil, wrongKind("%s has no tensor %s of %d numbers in float32", WeightsFile, name, s.size/len(s.tensors))
		}
		for ; len(data) > 0; data = data[4:] {
			numbers = append(numbers, math.Float32frombits(binary.LittleEndian.Uint32(data)))
		}
	}
	if s.inputs > 0 {
		return pack(numbers, s.inputs, s.size/s.inputs), nil
	}
	return numbers, nil
}
