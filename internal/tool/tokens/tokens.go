// Package tokens counts the tokens of a text in the o200k encoding. Other encodings
// differ a little, so the figure is for comparison, not for billing.
//
// The vocabulary (200,000 entries, about 30 MB) is built by the first call of Count.
// Count is safe for concurrent use. The package neither truncates texts nor enforces
// limits.
package tokens

import (
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

var encoder = sync.OnceValue(codec.NewO200kBase)

// Count returns the number of tokens of text. It counts invalid UTF-8 by its bytes.
func Count(text string) (int, error) {
	return encoder().Count(text)
}
