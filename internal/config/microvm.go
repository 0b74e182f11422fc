package config

// MicroVM configures the backend microvm.
type MicroVM struct {
	Kernel string // path of the guests' kernel; "" means the newest of the host for clouds
	Accel  string // kvm or tcg; "" means kvm
}
