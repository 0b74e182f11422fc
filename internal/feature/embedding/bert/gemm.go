package bert

// Dimensions of the block that gemm computes.
const (
	blockRows = 6
	blockCols = 16
)

// gemmGo is gemm without vector instructions.
func gemmGo(k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	for row := range blockRows {
		var sum [blockCols]float32
		for i, x := range a[row*lda : row*lda+k] {
			for j, y := range (*[blockCols]float32)(b[i*ldb:]) {
				sum[j] += x * y
			}
		}
		copy(c[row*ldc:], sum[:])
	}
}

// linear is a layer that multiplies with a matrix and adds a bias. The matrix is stored
// in panels of blockCols columns, so that gemm reads it in order.
type linear struct {
	in, out int
	panels  []float32
	bias    []float32
}

// apply sets dst, rows by out, to x, rows by in. The number of rows is a multiple of blockRows.
func (l linear) apply(dst, x []float32, rows int) {
	for col := 0; col < l.out; col += blockCols {
		panel := l.panels[col*l.in:]
		for row := 0; row < rows; row += blockRows {
			gemm(l.in, x[row*l.in:], l.in, panel, blockCols, dst[row*l.out+col:], l.out)
		}
	}
	for row := range rows {
		addTo(dst[row*l.out:(row+1)*l.out], l.bias)
	}
}

// pack converts a matrix with one row for each output, as files store it, to panels.
func pack(weights []float32, in, out int) []float32 {
	panels := make([]float32, 0, in*out)
	for col := 0; col < out; col += blockCols {
		for i := range in {
			for j := range blockCols {
				panels = append(panels, weights[(col+j)*in+i])
			}
		}
	}
	return panels
}

func addTo(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += x[i]
	}
}
