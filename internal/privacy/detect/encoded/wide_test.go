package encoded_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

func TestFindKnownValueInUTF16(t *testing.T) {
	for _, v := range []string{"Ada Lovelace", "Zoë Ünal-😀 Öz", "Ünalöz", "Иван Петров", "Иванов", "Ελένη", "王小明 12", "王小明", "山田 太郎"} {
		f := finder(t, v)
		f.Scan = nil
		for _, name := range []string{"utf-16-le", "utf-16-be"} {
			u, _ := encoded.UnicodeNamed(name)
			for form, text := range map[string]string{"bare": v, "mark": "\ufeff" + v, "sentence": "Это " + v + ", she said.\r\n",
				"marked": "\ufeffname;mail\r\n" + v + ";none\r\n"} {
				if form != "marked" && form != "mark" && strings.Contains(v, "王") { // two ideographs in random bytes are frequent
					continue
				}
				b, err := u.Encode(text)
				if err != nil {
					t.Fatal(err)
				}
				for _, before := range []string{"", "\x01", "\x01\x02"} {
					for as, in := range map[string]string{"base64": base64.StdEncoding.EncodeToString(append([]byte(before), b...)),
						"hex": hex.EncodeToString(append([]byte(before), b...))} {
						whole := "It is here: (" + in + "). É – nothing more"
						if found := f.Find(whole); len(found) == 0 {
							t.Errorf("%s of %q in %s, %s after %d bytes: not found in %q", form, v, name, as, len(before), whole)
						}
					}
				}
			}
		}
	}
}

// Personal data that no tool returned is detected as in UTF-8.
func TestFindDetectsInUTF16(t *testing.T) {
	f := finder(t)
	text := `{"имя": "x", "почта": "zoë@пример.example", "adresse": "пишите: ada@example.com (Zoë)"}`
	want := f.Find(base64.StdEncoding.EncodeToString([]byte(text)))
	for _, name := range []string{"utf-16-le", "utf-16-be"} {
		u, _ := encoded.UnicodeNamed(name)
		b, err := u.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		found := f.Find(base64.StdEncoding.EncodeToString(b))
		if len(found) == 0 || len(found) != len(want) || found[0].Type != want[0].Type {
			t.Errorf("%s: %+v, in UTF-8 %+v", name, found, want)
		}
	}
}
