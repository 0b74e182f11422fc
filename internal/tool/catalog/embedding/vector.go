package embedding

import (
	"math"
	"math/bits"
)

// vector is one of length one in a byte a number, which is exact enough to rank
// by and a quarter of the memory.
type vector struct {
	scale float32  // what a step is worth
	steps []byte   // int8 each; nil means that there is no vector
	signs []uint64 // a bit each: the roughest form, to choose by what is looked at closely
}

func quantise(v []float32) vector {
	top := float32(0)
	for _, x := range v {
		if x = max(x, -x); x > top {
			top = x
		}
	}
	steps := make([]byte, len(v))
	for i, x := range v {
		steps[i] = byte(int8(math.Round(float64(x / top * 127))))
	}
	return newVector(top/127, steps)
}

func newVector(scale float32, steps []byte) vector {
	v := vector{scale, steps, make([]uint64, (len(steps)+63)/64)}
	for i, s := range steps {
		v.signs[i/64] |= uint64(s>>7) << (i % 64)
	}
	return v
}

// similarity is the cosine of the angle between two vectors of one model.
func similarity(a, b vector) float64 {
	x, y := a.steps, b.steps[:len(a.steps)]
	var s0, s1, s2, s3 int32
	for len(x) >= 4 && len(y) >= 4 {
		s0 += int32(int8(x[0])) * int32(int8(y[0]))
		s1 += int32(int8(x[1])) * int32(int8(y[1]))
		s2 += int32(int8(x[2])) * int32(int8(y[2]))
		s3 += int32(int8(x[3])) * int32(int8(y[3]))
		x, y = x[4:], y[4:]
	}
	for i := range x {
		s0 += int32(int8(x[i])) * int32(int8(y[i]))
	}
	return float64(s0+s1+s2+s3) * float64(a.scale) * float64(b.scale)
}

// apart counts the numbers of two vectors whose signs differ.
func apart(a, b vector) (n int) {
	y := b.signs[:len(a.signs)]
	for i, x := range a.signs {
		n += bits.OnesCount64(x ^ y[i])
	}
	return n
}
