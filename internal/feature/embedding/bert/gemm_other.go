//go:build !amd64 && !arm64

package bert

// gemm sets the block c of blockRows by blockCols to the product of a, blockRows by k,
// and b, k by blockCols. Each stride is the distance of two rows.
func gemm(k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	gemmGo(k, a, lda, b, ldb, c, ldc)
}
