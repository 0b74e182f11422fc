// Package secret resolves references to secrets and stores secrets encrypted at rest.
// A configuration file contains references instead of secrets; a reference is
// resolved when the secret is needed. A Store encrypts the secrets that Sandpiper
// itself receives.
//
// A reference is ${NAME}, an environment variable; ${file:PATH}, the content of a
// file; or ${keyring:SERVICE/ACCOUNT}, an entry of the operating system's keyring.
// No error of this package contains a secret. Nothing is cached: a changed secret
// takes effect at the next lookup.
//
// References and Stores are safe for concurrent use. The package does not control
// access to secrets, and does not redact them in output.
package secret
