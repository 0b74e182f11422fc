// Package secret keeps what is secret out of files that people show each other:
// a configuration refers to a secret, and the reference is looked up when it is
// needed and not before; a Safe seals at rest what we were given ourselves.
//
// A reference is ${NAME}, a variable of the environment; ${file:PATH}, what a
// file holds; or ${keyring:SERVICE/ACCOUNT}, what the keyring of the operating
// system holds. No error of this package holds a secret. Nothing is kept: a
// secret that is changed where it lies is the new one from the next look.
//
// References and Safes are safe for concurrent use. The package does not decide who may
// see a secret, and hides none in what others print.
package secret
