package result

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestImageProtocolOf(t *testing.T) {
	for text, want := range map[string]imageProtocol{
		"TERM=xterm-kitty":                        kitty,
		"TERM=xterm-256color KITTY_WINDOW_ID=1":   kitty,
		"TERM=xterm-ghostty":                      kitty,
		"TERM=xterm TERM_PROGRAM=iTerm.app":       iTerm2,
		"TERM=xterm TERM_PROGRAM=WezTerm":         iTerm2,
		"TERM=foot":                               sixel,
		"TERM=mlterm-256color":                    sixel,
		"TERM=xterm-256color":                     "",
		"TERM=xterm-kitty TMUX=/tmp/x":            "",
		"TERM=tmux-256color TERM_PROGRAM=WezTerm": "",
		"TERM=dumb KITTY_WINDOW_ID=1":             "",
		"":                                        "",
	} {
		clients := map[string]string{}
		for _, pair := range strings.Fields(text) {
			name, value, _ := strings.Cut(pair, "=")
			clients[name] = value
		}
		if got := imageProtocolOf(func(name string) string { return clients[name] }); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// noise returns an image that does not compress.
func noise(w, h int) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = uint8(r.Uint32()) | 0x80
	}
	return img
}

func asPNG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestKittyAndITerm2HaveTheImageAsPNG(t *testing.T) {
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, noise(60, 50), nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range []imageProtocol{kitty, iTerm2} {
		out, err := terminalImage(p, photo.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		form := regexp.MustCompile("^\x1b]1337;File=inline=1;size=[0-9]+:([A-Za-z0-9+/=]+)\a\n$")
		text := ""
		if p == kitty {
			form = regexp.MustCompile("^\x1b_Ga=T,f=100,q=2,m=1;[A-Za-z0-9+/=]+\x1b\\\\(\x1b_Gm=1;[A-Za-z0-9+/=]+\x1b\\\\)*\x1b_Gm=0;[A-Za-z0-9+/=]+\x1b\\\\\n$")
			for _, m := range regexp.MustCompile(`m=[01];([A-Za-z0-9+/=]+)`).FindAllSubmatch(out, -1) {
				if text += string(m[1]); len(m[1]) > 4096 || len(m[1])%4 != 0 {
					t.Errorf("a chunk has %d bytes", len(m[1]))
				}
			}
		}
		m := form.FindSubmatch(out)
		if m == nil {
			t.Fatalf("%s: %.200q", p, out)
		}
		if p == iTerm2 {
			text = string(m[1])
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if img, err := png.Decode(bytes.NewReader(data)); err != nil || img.Bounds() != image.Rect(0, 0, 60, 50) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestSixel(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 5, 7))
	for i := range 5 * 7 {
		img.Set(i%5, i/5, color.RGBA{255, 0, 0, 255})
	}
	out, err := terminalImage(sixel, asPNG(t, img))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(out), "#215;2;100;100;100")
	if !strings.HasPrefix(string(out), "\x1bPq\"1;1;5;7#0;2;0;0;0") || body != "#180!5~$-#180!5@$-\x1b\\\n" {
		t.Errorf("%q", out)
	}
	wide, err := terminalImage(sixel, asPNG(t, noise(1600, 12)))
	if err != nil || !bytes.HasPrefix(wide, []byte("\x1bPq\"1;1;800;6")) {
		t.Errorf("a wide image: %.40q, %v", wide, err)
	}
}

func TestTerminalImageRefuses(t *testing.T) {
	huge := asPNG(t, noise(1, 1))
	copy(huge[16:24], []byte{0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff}) // its width and height
	for name, data := range map[string][]byte{"no image": []byte("\x1b]0;title\a"), "nothing": nil, "a huge image": huge,
		"a cut image": asPNG(t, noise(9, 9))[:60]} {
		if out, err := terminalImage(kitty, data); err == nil {
			t.Errorf("%s is shown: %q", name, out)
		}
	}
}
