package config

// MicroVM configures the backend microvm.
type MicroVM struct {
	Kernel string `key:"kernel" form:"path"`    // path of the guests' kernel; "" means the newest of the host for clouds
	Accel  string `key:"accel" allow:"kvm tcg"` // kvm or tcg; "" means kvm
	// SeedSetting is the setting of a seed's file that selects virtual machines, with its position; "" for
	// sandbox.backend.
	SeedSetting string
}
