package mcpserver

import (
	"net/http"
	"path"
	"strings"
)

// types are the MIME types of common files. The host's table would make answers differ
// between machines.
var types = map[string]string{
	".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown",
	".csv": "text/csv", ".tsv": "text/tab-separated-values", ".html": "text/html", ".htm": "text/html",
	".css": "text/css", ".js": "text/javascript", ".py": pythonType, ".sql": "application/sql",
	".json": "application/json", ".jsonl": "application/jsonl", ".ndjson": "application/x-ndjson",
	".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml", ".xml": "application/xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".svg": "image/svg+xml",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".mp4": "video/mp4",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".tar": "application/x-tar",
	".xlsx":    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".docx":    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".pptx":    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".parquet": "application/vnd.apache.parquet",
	".sqlite":  "application/vnd.sqlite3", ".db": "application/vnd.sqlite3",
}

// typeByName returns the MIME type of a file's extension, or "".
func typeByName(name string) string { return types[strings.ToLower(path.Ext(name))] }

// contentType returns the MIME type of a file, by its extension or its first bytes.
func contentType(name string, content []byte) string {
	if t := typeByName(name); t != "" {
		return t
	}
	t, _, _ := strings.Cut(http.DetectContentType(content), ";") // text or blob implies the charset
	return t
}
