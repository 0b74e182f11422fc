package bert

import "golang.org/x/sys/cpu"

var hasFMA = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// gemm sets the block c of blockRows by blockCols to the product of a, blockRows by k,
// and b, k by blockCols. Each stride is the distance of two rows.
func gemm(k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if !hasFMA {
		gemmGo(k, a, lda, b, ldb, c, ldc)
		return
	}
	// The assembly checks no bounds.
	_, _, _ = a[(blockRows-1)*lda+k-1], b[(k-1)*ldb+blockCols-1], c[(blockRows-1)*ldc+blockCols-1]
	gemmFMA(k, &a[0], lda, &b[0], ldb, &c[0], ldc)
}

//go:noescape
func gemmFMA(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
