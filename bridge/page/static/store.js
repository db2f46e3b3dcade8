// What the portal knows: the session's id and the vendors, for as long as the tab lives.

import { keep, kept } from "./tab.js";

const sessionKey = "portal.session";
const vendorsKey = "portal.vendors";

function newID() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return `demo-${Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("")}`;
}

const doc = (name, note) => ({ name, note });

function initialVendors() {
  return [
    {
      id: "acme-supplies", name: "Acme Supplies", category: "Packaging", status: "blocked", spend: "$184,200", owner: "Priya Raman",
      country: "United States", terms: "Net 30",
      documents: [doc("W-9 form"), doc("insurance certificate"), doc("bank details", "Verified 12 March"), doc("code of conduct", "Signed 2 March")],
    },
    {
      id: "borealis-logistics", name: "Borealis Logistics", category: "Freight", status: "in_review", spend: "$96,750", owner: "Jonas Weber",
      country: "Canada", terms: "Net 45",
      documents: [doc("W-8BEN-E form", "Received 20 April"), doc("insurance certificate", "Valid until June"), doc("safety record"), doc("bank details", "Verified 21 April")],
    },
    {
      id: "cobalt-software", name: "Cobalt Software", category: "Software", status: "approved", spend: "$312,000", owner: "Mei Tanaka",
      country: "Ireland", terms: "Net 30",
      documents: [doc("SOC 2 report", "Type II, this year"), doc("data processing agreement", "Signed 8 January"), doc("bank details", "Verified 9 January")],
    },
    {
      id: "delta-print", name: "Delta Print", category: "Marketing", status: "pending", spend: "$12,400", owner: "Priya Raman",
      country: "United States", terms: "Net 15",
      documents: [doc("W-9 form"), doc("bank details"), doc("code of conduct")],
    },
    {
      id: "evergreen-facilities", name: "Evergreen Facilities", category: "Services", status: "approved", spend: "$58,900", owner: "Jonas Weber",
      country: "United States", terms: "Net 30",
      documents: [doc("W-9 form", "Received 3 February"), doc("insurance certificate", "Valid until December"), doc("bank details", "Verified 5 February")],
    },
    {
      id: "fjord-coffee", name: "Fjord Coffee", category: "Catering", status: "pending", spend: "$4,300", owner: "Mei Tanaka",
      country: "Norway", terms: "Net 14",
      documents: [doc("food safety permit", "Valid until May"), doc("bank details", "Verified yesterday")],
    },
  ];
}

function loadVendors() {
  try {
    return JSON.parse(kept(vendorsKey) || "null") ?? initialVendors();
  } catch {
    return initialVendors();
  }
}

/** @type {{ session: string, vendors: ReturnType<typeof initialVendors> }} */
export const state = { session: "", vendors: [] };

/** Takes up the tab's session, or begins one. */
export function open() {
  state.session = kept(sessionKey) || newID();
  state.vendors = loadVendors();
  save();
}

/** Begins a session in which nothing has happened. */
export function restart() {
  state.session = newID();
  state.vendors = initialVendors();
  save();
}

export function save() {
  keep(sessionKey, state.session);
  keep(vendorsKey, JSON.stringify(state.vendors));
}

/** @returns {any} the vendor, which has an icon of its own */
export const vendorOf = (id) => state.vendors.find((vendor) => vendor.id === id);

/** Names of the documents that the vendor still owes. */
export const missing = (vendor) => vendor.documents.filter((d) => !d.note).map((d) => d.name);

/** The vendor's compliance state, as the bridge takes it. */
export const compliance = (vendor) =>
  vendor && { id: vendor.id, name: vendor.name, status: vendor.status, missing_documents: missing(vendor) };

export const statusNames = { pending: "Pending", in_review: "In review", blocked: "Blocked", approved: "Approved" };
