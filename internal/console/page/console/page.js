// The page of its own: the console in all of the window.

import { mount } from "./console.js";

mount(document.getElementById("console"));
