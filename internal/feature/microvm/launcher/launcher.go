// Package launcher is the process that starts one program of the microvm backend, QEMU or
// virtiofsd, in a private root. Both programs handle data of a hostile guest, so neither sees
// a file, process or network of the host that it does not need.
//
// A program that imports this package becomes a launcher when it is started with Name as its
// argv[0], as root of its own user, mount, pid and network namespaces; see init. It then has
// two descriptors: Config as JSON, and those that the program inherits from it. The package
// must import only packages that are initialized early, as package keeper.
package launcher

// Name is argv[0] of a launcher.
const Name = "sandpiper-microvm-launcher"

// ConfigFD is the descriptor of a pipe with a Config. The descriptors after it are those of
// the program.
const ConfigFD = 3

// Config describes the program.
type Config struct {
	Args    []string // the path of the program, and its arguments
	UID     int      // in the namespaces
	Groups  []int    // supplementary groups in the namespaces
	Caps    []int    // capabilities that it keeps
	Devices []string // of the host, besides /dev/null and /dev/urandom
	// Exports are the directories below /export: 0, 1, and so on.
	Exports []Export
	// Sharing reports that the program serves a socket. SharingFD is a connected socket: the
	// launcher sends a connection to the program over it, and replaces it by the listening
	// socket. Nothing outside of the network namespace can connect to that.
	Sharing   bool
	OpenFiles uint64 // RLIMIT_NOFILE
	Files     int    // descriptors that it inherits, after ConfigFD
}

// Export is the directory Name in the directory Root of the host.
type Export struct {
	Root, Name string
	ReadOnly   bool
}

// SharingFD is the descriptor of a program with Config.Sharing.
const SharingFD = ConfigFD + 1

// ExportDir is the parent of the exports.
const ExportDir = "/export"
