package config

// MicroVM configures the backend microvm.
type MicroVM struct {
	Kernel string // path of the guests' kernel; "" means the newest of the host for clouds
	Accel  string // kvm or tcg; "" means kvm
	// SeedSetting is the setting of a seed's file that selects virtual machines, with its position; "" for
	// sandbox.backend.
	SeedSetting string
}
