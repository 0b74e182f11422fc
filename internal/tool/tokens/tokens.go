// Package tokens counts the tokens that a text costs a model, in the o200k
// encoding. Other models count a little differently; the figure is a measure
// to compare with, not a bill.
//
// The vocabulary (200,000 entries, about 30 MB) is built at the first count,
// never at start. Count is safe for concurrent use. The package cuts nothing
// and knows no limits: that is its callers' business.
package tokens

import (
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

var encoder = sync.OnceValue(codec.NewO200kBase)

// Count returns how many tokens text is. Text that is not UTF-8 is counted as
// the bytes it has.
func Count(text string) (int, error) {
	return encoder().Count(text)
}
