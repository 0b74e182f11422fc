package httpserver

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// checkHost rejects other host names on a loopback address, against DNS rebinding.
func checkHost(r *http.Request) error {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(at.String()) && !isLoopback(r.Host) {
		return fmt.Errorf("the host name %.100q is not allowed on a loopback address", r.Host)
	}
	return nil
}

// checkProbeHost is CheckHost for health checks, which may also have another address as host, or none: a
// page that rebinds a name has that name, and probes use an address.
func checkProbeHost(next http.Handler) http.Handler {
	checked := CheckHost(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := netip.ParseAddr(hostOf(r.Host)); err == nil || r.Host == "" {
			next.ServeHTTP(w, r)
			return
		}
		checked.ServeHTTP(w, r)
	})
}

// CheckHost protects the handler of another server of the daemon against DNS rebinding.
func CheckHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkHost(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether addr, "host" or "host:port", is a loopback address.
func isLoopback(addr string) bool {
	host := hostOf(addr)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostOf returns addr without a port.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return strings.Trim(addr, "[]")
}
