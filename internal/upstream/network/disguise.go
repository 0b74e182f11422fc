package network

import (
	"net/http"
	"net/url"
	"strings"
)

// maxDecodings limits how often a path is decoded. One that is still encoded may have dots.
const maxDecodings = 4

// DotSegment returns the segment . or .. that some server or proxy reads in a path and resolves:
// after decoding it again, without parameters (;x) or control characters, and with characters
// that are converted to a dot or a slash. It returns "" if there is none.
func DotSegment(path string) string {
	for range maxDecodings {
		for segment := range strings.FieldsFuncSeq(lookalikes.Replace(path), func(r rune) bool { return r == '/' || r == '\\' }) {
			segment = strings.TrimLeftFunc(segment, endsSegment)
			if i := strings.IndexFunc(segment, endsSegment); i >= 0 {
				segment = segment[:i]
			}
			if segment == "." || segment == ".." {
				return segment
			}
		}
		again := decodeOnce(path)
		if again == path {
			return ""
		}
		path = again
	}
	return "."
}

// readings returns the paths that servers and proxies may read in a path, in a fixed order, of which
// the first is the path itself: after decoding it again, with other slashes, with segments that end
// before a parameter, and up to a character that ends a path.
func readings(path string) (all []string) {
	for range maxDecodings + 1 {
		for _, p := range []string{path, withSlashes(path)} {
			end := strings.IndexAny(p, "?#;\x00\r\n")
			if end < 0 {
				end = len(p)
			}
			all = append(all, p, cutSegments(p), p[:end])
		}
		path = decodeOnce(path)
	}
	return all
}

// withSlashes replaces what is read as a slash, and several slashes by one.
func withSlashes(path string) string {
	path = strings.ReplaceAll(lookalikes.Replace(path), "\\", "/")
	var b strings.Builder
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	return b.String()
}

// cutSegments returns a path whose segments end before the first character that ends one.
func cutSegments(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if end := strings.IndexFunc(s, endsSegment); end >= 0 {
			segments[i] = s[:end]
		}
	}
	return strings.Join(segments, "/")
}

// endsSegment reports whether some program ends a segment before r or ignores r.
func endsSegment(r rune) bool { return r <= ' ' || r == 0x7f || r == ';' || r == '?' || r == '#' }

// lookalikes replaces other forms of dots and slashes: overlong UTF-8, as single bytes and as
// Latin-1, and characters that normalization converts.
var lookalikes = strings.NewReplacer(
	"\xc0\xae", ".", "\xe0\x80\xae", ".", "\xf0\x80\x80\xae", ".", "\xc0\xaf", "/", "\xe0\x80\xaf", "/", "\xf0\x80\x80\xaf", "/", "\xc1\x9c", "\\",
	"\uff0e", ".", "\u2024", ".", "\u2025", "..", "\ufe52", ".", "\u3002", ".", "\uff61", ".",
	"\uff0f", "/", "\u2044", "/", "\u2215", "/", "\uff3c", "\\", "\ufe68", "\\",
)

// decodeOnce decodes the escapes of a path that are valid, also those of code units (%u002e).
func decodeOnce(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); {
		if path[i] == '%' && i+6 <= len(path) && (path[i+1] == 'u' || path[i+1] == 'U') && path[i+2:i+4] == "00" {
			if c, err := url.PathUnescape("%" + path[i+4:i+6]); err == nil {
				b.WriteString(c)
				i += 6
				continue
			}
		}
		if path[i] == '%' && i+3 <= len(path) {
			if c, err := url.PathUnescape(path[i : i+3]); err == nil {
				b.WriteString(c)
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
		i++
	}
	return b.String()
}

// alike returns a form of a header's name that is equal for names that some servers do not
// distinguish: CGI and WSGI convert "-" and other characters to "_".
func alike(name string) string {
	return http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name))
}

// overriding lists the headers from which servers and proxies read another method, URL, host or
// client.
var overriding = map[string]bool{
	"X-Http-Method-Override": true, "X-Http-Method": true, "X-Method-Override": true, "X-Method": true, "Http-Method-Override": true, "Method-Override": true,
	"X-Original-Url": true, "X-Original-Uri": true, "X-Original-Host": true, "X-Original-Method": true, "X-Original-Path": true, "X-Rewrite-Url": true, "X-Rewrite-Uri": true,
	"X-Override-Url": true, "X-Request-Uri": true, "X-Url": true, "X-Uri": true, "X-Path": true, "X-Destination-Url": true, "X-Http-Destinationurl": true, "X-Proxy-Url": true,
	"X-Host": true, "X-Http-Host-Override": true, "X-Host-Override": true, "X-Backend-Host": true, "X-Upstream-Host": true, "X-Script-Name": true, "X-Servername": true,
	"Forwarded": true, "X-Forwarded": true, "Forwarded-For": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Remote-Ip": true, "X-Remote-Addr": true, "X-Originating-Ip": true,
	"X-Cluster-Client-Ip": true, "True-Client-Ip": true, "Cf-Connecting-Ip": true, "Fastly-Client-Ip": true, "Client-Ip": true, "X-Remote-User": true, "Remote-User": true,
	"X-Custom-Ip-Authorization": true, "X-Proxyuser-Ip": true, "Proxy": true, "Via": true,
	"X-Middleware-Subrequest": true, "X-Tunnel-Method": true, "X-Accel-Mapping": true, "X-Accel-Redirect": true, "X-Sendfile": true, "X-Sendfile-Type": true, "X-Webauth-User": true,
}

// overrides reports whether a header, in the form of alike, is one of those.
func overrides(name string) bool {
	return overriding[name] || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Original-") || strings.HasPrefix(name, "X-Envoy-")
}
