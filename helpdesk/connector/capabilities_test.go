package connector

import "github.com/liveactivity/liveactivity/helpdesk"

// capable declares the capabilities of a fake desk by its methods.
func capable(d any) (c helpdesk.Capabilities) {
	c.Renderer, _ = d.(helpdesk.Renderer)
	c.Finder, _ = d.(helpdesk.Finder)
	c.Pacer, _ = d.(helpdesk.Pacer)
	c.Contacts, _ = d.(helpdesk.ContactReader)
	c.Redactor, _ = d.(helpdesk.Redactor)
	c.Replier, _ = d.(helpdesk.Replier)
	c.Chatter, _ = d.(helpdesk.Chatter)
	c.Offerer, _ = d.(helpdesk.Offerer)
	c.Remover, _ = d.(helpdesk.Remover)
	return c
}

func (d *scriptDesk) Capabilities() helpdesk.Capabilities  { return capable(d) }
func (d plainDesk) Capabilities() helpdesk.Capabilities    { return capable(d) }
func (d pacedDesk) Capabilities() helpdesk.Capabilities    { return capable(d) }
func (d *slowDesk) Capabilities() helpdesk.Capabilities    { return capable(d) }
func (d offeringDesk) Capabilities() helpdesk.Capabilities { return capable(d) }
func (d *desk) Capabilities() helpdesk.Capabilities        { return capable(d) }
