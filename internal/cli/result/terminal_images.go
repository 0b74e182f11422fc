package result

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color/palette"
	"image/draw"
	_ "image/gif" // decoded by image.Decode, as the next
	_ "image/jpeg"
	"image/png"
	"strings"
)

// imageProtocol is how a terminal shows images; "" if it does not.
type imageProtocol string

const (
	kitty  imageProtocol = "kitty"  // https://sw.kovidgoyal.net/kitty/graphics-protocol/
	iTerm2 imageProtocol = "iTerm2" // https://iterm2.com/documentation-images.html
	sixel  imageProtocol = "sixel"  // DEC STD 070, https://vt100.net/docs/vt3xx-gp/chapter14.html
)

// imageProtocolOf returns the protocol of the terminal that an environment names. tmux and screen
// pass none on.
func imageProtocolOf(clients func(string) string) imageProtocol {
	term, program := clients("TERM"), clients("TERM_PROGRAM")
	switch {
	case clients("TMUX") != "" || strings.HasPrefix(term, "tmux") || strings.HasPrefix(term, "screen") || term == "dumb":
		return ""
	case clients("KITTY_WINDOW_ID") != "" || term == "xterm-kitty" || term == "xterm-ghostty" || program == "ghostty":
		return kitty
	case program == "iTerm.app" || program == "WezTerm" || clients("LC_TERMINAL") == "iTerm2":
		return iTerm2
	case strings.HasPrefix(term, "foot") || strings.HasPrefix(term, "mlterm") || strings.HasPrefix(term, "contour") ||
		strings.Contains(term, "sixel"):
		return sixel
	}
	return ""
}

// Limits of an image that is shown.
const (
	maxPixels     = 32 << 20
	maxSixelWidth = 800
)

// terminalImage returns what shows an image with a protocol. The image is decoded first, since its
// bytes come from a sandbox or a server: the terminal gets pixels only.
func terminalImage(p imageProtocol, data []byte) ([]byte, error) {
	size, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if size.Width <= 0 || size.Height <= 0 || size.Width > maxPixels/size.Height {
		return nil, fmt.Errorf("the image has %d × %d pixels", size.Width, size.Height)
	}
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if p == sixel {
		return encodeSixel(shrink(img, maxSixelWidth)), nil
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return nil, err
	}
	text := base64.StdEncoding.EncodeToString(b.Bytes())
	if p == kitty {
		return encodeKitty(text), nil
	}
	return fmt.Appendf(nil, "\x1b]1337;File=inline=1;size=%d:%s\a\n", b.Len(), text), nil
}

// encodeKitty returns the commands that transmit and show a PNG image in base64, in chunks.
func encodeKitty(text string) []byte {
	const chunk = 4096
	var out bytes.Buffer
	for first := true; first || text != ""; first = false {
		part := text[:min(chunk, len(text))]
		text = text[len(part):]
		keys, more := "", 0
		if first {
			keys = "a=T,f=100,q=2,"
		}
		if text != "" {
			more = 1
		}
		fmt.Fprintf(&out, "\x1b_G%sm=%d;%s\x1b\\", keys, more, part)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// shrink returns an image of at most a width, on white.
func shrink(img image.Image, width int) *image.RGBA {
	from := img.Bounds()
	w, h := from.Dx(), from.Dy()
	if w > width {
		w, h = width, max(1, h*width/w)
	}
	flat := image.NewRGBA(from)
	draw.Draw(flat, from, image.White, image.Point{}, draw.Src)
	draw.Draw(flat, from, img, from.Min, draw.Over)
	if w == from.Dx() {
		return flat
	}
	small := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			small.Set(x, y, flat.At(from.Min.X+x*from.Dx()/w, from.Min.Y+y*from.Dy()/h))
		}
	}
	return small
}

// encodeSixel returns an image with the 216 colours of the web.
func encodeSixel(img *image.RGBA) []byte {
	bounds := img.Bounds()
	w, h := bounds.Dx(), bounds.Dy()
	colours := image.NewPaletted(image.Rect(0, 0, w, h), palette.WebSafe)
	draw.FloydSteinberg.Draw(colours, colours.Bounds(), img, bounds.Min)
	var out bytes.Buffer
	fmt.Fprintf(&out, "\x1bPq\"1;1;%d;%d", w, h)
	for i, c := range palette.WebSafe {
		r, g, b, _ := c.RGBA()
		fmt.Fprintf(&out, "#%d;2;%d;%d;%d", i, r*100/0xffff, g*100/0xffff, b*100/0xffff)
	}
	for top := 0; top < h; top += 6 {
		for _, i := range coloursIn(colours, top) {
			fmt.Fprintf(&out, "#%d", i)
			writeRow(&out, colours, top, i)
			out.WriteByte('$') // back to the start of the row
		}
		out.WriteByte('-')
	}
	out.WriteString("\x1b\\\n")
	return out.Bytes()
}

// coloursIn returns the colours of the six lines from top on.
func coloursIn(img *image.Paletted, top int) (all []uint8) {
	var seen [256]bool
	for _, i := range img.Pix[top*img.Stride : min(top+6, img.Rect.Dy())*img.Stride] {
		seen[i] = true
	}
	for i, is := range seen {
		if is {
			all = append(all, uint8(i))
		}
	}
	return all
}

// writeRow writes the pixels of one colour in six lines, one character for each column, with
// repetitions counted.
func writeRow(out *bytes.Buffer, img *image.Paletted, top int, colour uint8) {
	last, times := byte(0), 0
	flush := func() {
		if times > 3 {
			fmt.Fprintf(out, "!%d%c", times, last)
		} else {
			out.Write(bytes.Repeat([]byte{last}, times))
		}
	}
	for x := range img.Rect.Dx() {
		bits := byte(0)
		for dy := 0; dy < 6 && top+dy < img.Rect.Dy(); dy++ {
			if img.ColorIndexAt(x, top+dy) == colour {
				bits |= 1 << dy
			}
		}
		if c := '?' + bits; c == last {
			times++
		} else {
			flush()
			last, times = c, 1
		}
	}
	flush()
}
