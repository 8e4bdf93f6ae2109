package linkroute

// wireText is an error whose text operators see as it is.
type wireText string

func (t wireText) Error() string { return string(t) }

// What a link route or autolink is refused with (RT 3.1, A1).
const (
	ErrBothSelectors = wireText("Both connection and containerId cannot be specified. Specify only one")
	ErrDirection     = wireText("Invalid value for 'direction'")
	ErrAddressNeeded = wireText("address and direction fields are mandatory")
	ErrPhase         = wireText("autoLink phase must be between 0 and 9")
	ErrAddress       = wireText("autoLink address must be one of the network, not of a single router")
)
