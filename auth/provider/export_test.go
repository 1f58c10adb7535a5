package provider

import "time"

// SetKeysGap changes how long after a fetch of keys none follows.
func (p *OIDC) SetKeysGap(gap time.Duration) { p.gap = gap }
