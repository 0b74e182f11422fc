package bert

import (
	"math"
	"math/rand/v2"
	"testing"
)

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// TestGemmAgreesWithTheDefinition compares both implementations with sums in float64.
func TestGemmAgreesWithTheDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []struct{ k, lda, ldb, ldc int }{{1, 1, 16, 16}, {7, 9, 16, 20}, {32, 96, 96, 48}, {384, 384, 16, 1152}} {
		a, b := random(r, 5*size.lda+size.k), random(r, (size.k-1)*size.ldb+16)
		fast, slow := make([]float32, 5*size.ldc+16), make([]float32, 5*size.ldc+16)
		gemm(size.k, a, size.lda, b, size.ldb, fast, size.ldc)
		gemmGo(size.k, a, size.lda, b, size.ldb, slow, size.ldc)
		for row := range blockRows {
			for col := range blockCols {
				want := 0.0
				for i := range size.k {
					want += float64(a[row*size.lda+i]) * float64(b[i*size.ldb+col])
				}
				at := row*size.ldc + col
				for name, got := range map[string]float32{"gemm": fast[at], "gemmGo": slow[at]} {
					if math.Abs(float64(got)-want) > 1e-5*float64(size.k) {
						t.Fatalf("%s, %+v: row %d, column %d is %v, want %v", name, size, row, col, got, want)
					}
				}
			}
		}
	}
}

func BenchmarkLinear(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const rows = 96
	l := linear{in: 384, out: 1536, panels: random(r, 384*1536), bias: random(r, 1536)}
	x, dst := random(r, rows*l.in), make([]float32, rows*l.out)
	b.SetBytes(2 * rows * 384 * 1536) // floating-point operations
	for b.Loop() {
		l.apply(dst, x, rows)
	}
}
