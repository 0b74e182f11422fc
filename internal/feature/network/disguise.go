package network

import (
	"net/http"
	"strings"
)

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
	"X-Http-Method-Override": true, "X-Http-Method": true, "X-Method-Override": true, "X-Method": true, "Http-Method-Override": true,
	"Method-Override": true,
	"X-Original-Url":  true, "X-Original-Uri": true, "X-Original-Host": true, "X-Original-Method": true, "X-Original-Path": true,
	"X-Rewrite-Url": true, "X-Rewrite-Uri": true,
	"X-Override-Url": true, "X-Request-Uri": true, "X-Url": true, "X-Uri": true, "X-Path": true, "X-Destination-Url": true,
	"X-Http-Destinationurl": true, "X-Proxy-Url": true,
	"X-Host": true, "X-Http-Host-Override": true, "X-Host-Override": true, "X-Backend-Host": true, "X-Upstream-Host": true,
	"X-Script-Name": true, "X-Servername": true,
	"Forwarded": true, "X-Forwarded": true, "Forwarded-For": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Remote-Ip": true,
	"X-Remote-Addr": true, "X-Originating-Ip": true,
	"X-Cluster-Client-Ip": true, "True-Client-Ip": true, "Cf-Connecting-Ip": true, "Fastly-Client-Ip": true, "Client-Ip": true,
	"X-Remote-User": true, "Remote-User": true,
	"X-Custom-Ip-Authorization": true, "X-Proxyuser-Ip": true, "Proxy": true, "Via": true,
	"X-Middleware-Subrequest": true, "X-Tunnel-Method": true, "X-Accel-Mapping": true, "X-Accel-Redirect": true, "X-Sendfile": true,
	"X-Sendfile-Type": true, "X-Webauth-User": true,
}

// overrides reports whether a header, in the form of alike, is one of those.
func overrides(name string) bool {
	return overriding[name] || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Original-") || strings.HasPrefix(name,
		"X-Envoy-")
}
